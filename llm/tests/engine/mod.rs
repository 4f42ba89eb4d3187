//! The engine with a scripted model: joining and leaving, waiting, cancelling, credit, failures. A
//! gate lets a test decide when a step may go on.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use crate::support;
use graphmill_llm::backend::scripted::{Reply, Script, ScriptedBackend, Then};
use graphmill_llm::{
    FinishReason, GenerationRequest, LlmEngine, LlmEngineSpec, LlmEngineStatus, SequenceHandle,
    StepOutput, SubmitError, Token, Vocab,
};

mod failing;
mod fairness;
mod replacing;
mod running;
mod waiting;

fn spec() -> LlmEngineSpec {
    LlmEngineSpec::new("test.script.json")
}

/// An engine whose steps run freely.
fn engine(script: Script, spec: LlmEngineSpec) -> LlmEngine {
    let (engine, gate) = gated(script, spec);
    drop(gate);
    engine
}

/// An engine whose steps wait for the gate.
fn gated(script: Script, spec: LlmEngineSpec) -> (LlmEngine, Sender<()>) {
    let (gate, permits) = mpsc::channel::<()>();
    let wait = move |_: &ScriptedBackend| {
        permits.recv().ok(); // without a gate, steps run freely
    };
    (support::gated(script, spec, wait), gate)
}

fn replies(replies: &[(&str, &str, Then)]) -> Script {
    let reply = |(when, text, then): &(&str, &str, Then)| Reply {
        when: (*when).to_owned(),
        text: (*text).to_owned(),
        then: *then,
    };
    Script {
        replies: replies.iter().map(reply).collect(),
        ..Script::default()
    }
}

/// The prompt of a chat with one message.
fn chat(engine: &LlmEngine, message: &str) -> Vec<Token> {
    let text = format!("<|im_start|>user\n{message}<|im_end|>\n<|im_start|>assistant\n");
    engine.vocab().tokenize(&text, true, true).expect("short")
}

struct Generation {
    outputs: Receiver<StepOutput>,
    handle: SequenceHandle,
    vocab: Arc<dyn Vocab>,
}

impl Generation {
    fn start(
        engine: &LlmEngine,
        prompt: Vec<Token>,
        adapt: impl FnOnce(&mut GenerationRequest),
    ) -> Result<Self, SubmitError> {
        let (sender, outputs) = mpsc::channel();
        let mut request = GenerationRequest::new(prompt, move |output| {
            sender.send(output).ok(); // a test that cancels drops the receiver
        });
        adapt(&mut request);
        Ok(Self {
            outputs,
            handle: engine.submit(request)?,
            vocab: engine.vocab(),
        })
    }

    fn chat(engine: &LlmEngine, message: &str) -> Self {
        Self::start(engine, chat(engine, message), |_| {}).expect("accepted")
    }

    fn next(&self) -> StepOutput {
        self.outputs
            .recv_timeout(Duration::from_secs(20))
            .expect("an output")
    }

    /// Text and finish of the whole generation.
    fn finish(self) -> (String, FinishReason) {
        let mut text = Vec::new();
        loop {
            let output = self.next();
            output
                .tokens
                .iter()
                .for_each(|token| self.vocab.piece(*token, false, &mut text));
            if let Some(finish) = output.finish {
                return (String::from_utf8(text).expect("whole characters"), finish);
            }
        }
    }
}

fn eventually(engine: &LlmEngine, what: &str, holds: impl Fn(&LlmEngineStatus) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds(&engine.status()) {
        assert!(
            Instant::now() < deadline,
            "never {what}: {:?}",
            engine.status()
        );
        std::thread::yield_now();
    }
}

fn is_empty(status: &LlmEngineStatus) -> bool {
    status.sequences_running == 0 && status.sequences_waiting == 0 && status.kv_cells_used == 0
}

fn stop(text: &str) -> (String, FinishReason) {
    (text.to_owned(), FinishReason::Stop)
}
