//! The models of this repository, and generations on them.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use graphmill_llm::{
    FinishReason, GenerationRequest, LlmEngine, SequenceHandle, StepOutput, Token, TokenLogprob,
    Usage,
};

/// How long a step may take, on a machine that does other things too.
const PATIENCE: Duration = Duration::from_mins(2);

/// What the model in this repository is asked.
pub(crate) const MESSAGES: [&str; 8] = [
    "Hello!",
    "What is OpenVINO?",
    "What is a side packet?",
    "Say this is a test",
    "Count from 1 to 5.",
    "Write a short story.",
    "What is 3 plus 4?",
    "List three colors.",
];

/// A file of `demos`, which has to be there.
pub(crate) fn demo(path: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../demos")
        .join(path);
    assert!(path.exists(), "`{}` is missing", path.display());
    path
}

/// The model of this repository that generates.
pub(crate) fn model() -> PathBuf {
    demo("tiny_chat/model.gguf")
}

pub(crate) fn tokenize(engine: &LlmEngine, text: &str) -> Vec<Token> {
    engine.vocab().tokenize(text, true, true).expect("short")
}

/// The prompt of a chat with one message.
pub(crate) fn chat(engine: &LlmEngine, message: &str) -> Vec<Token> {
    let text = format!("<|im_start|>user\n{message}<|im_end|>\n<|im_start|>assistant\n");
    tokenize(engine, &text)
}

/// A generation that runs. It is cancelled when it is dropped.
pub(crate) struct Generation {
    outputs: Receiver<StepOutput>,
    _handle: SequenceHandle,
}

/// What a generation put out from here to its end.
pub(crate) struct Answer {
    pub(crate) tokens: Vec<Token>,
    pub(crate) logprobs: Vec<TokenLogprob>,
    pub(crate) prompt_logprobs: Vec<f32>,
    pub(crate) finish: FinishReason,
    pub(crate) usage: Usage,
}

impl Generation {
    pub(crate) fn start(
        engine: &LlmEngine,
        prompt: Vec<Token>,
        adapt: impl FnOnce(&mut GenerationRequest),
    ) -> Self {
        let (sender, outputs) = mpsc::channel();
        let mut request = GenerationRequest::new(prompt, move |output| {
            sender.send(output).ok(); // a test that cancels or fails drops the receiver
        });
        adapt(&mut request);
        Self {
            _handle: engine.submit(request).expect("accepted"),
            outputs,
        }
    }

    pub(crate) fn next(&self) -> StepOutput {
        self.outputs.recv_timeout(PATIENCE).expect("an output")
    }

    pub(crate) fn finish(self) -> Answer {
        let mut answer = Answer {
            tokens: Vec::new(),
            logprobs: Vec::new(),
            prompt_logprobs: Vec::new(),
            finish: FinishReason::Stop,
            usage: Usage::default(),
        };
        loop {
            let output = self.next();
            answer.tokens.extend(output.tokens);
            answer.logprobs.extend(output.logprobs);
            let of_prompt = output.prompt_logprobs.iter().flatten();
            answer
                .prompt_logprobs
                .extend(of_prompt.map(|token| token.logprob));
            match output.finish {
                Some(FinishReason::Error(error)) => panic!("{error}"),
                Some(finish) => {
                    return Answer {
                        finish,
                        usage: output.usage,
                        ..answer
                    };
                }
                None => {}
            }
        }
    }
}

impl Answer {
    pub(crate) fn text(&self, engine: &LlmEngine) -> String {
        let mut text = Vec::new();
        for token in &self.tokens {
            engine.vocab().piece(*token, false, &mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// Checks that both texts are the same up to a place where the model is undecided, if there is one.
/// True if there is none.
///
/// What else is in a batch, and which KV cells it uses, decides in which order floats are added. So
/// log probabilities differ by less than `tolerance`, and a greedy text may part from another where
/// its two likeliest tokens do.
pub(crate) fn same(
    plain: &[TokenLogprob],
    drafting: &[TokenLogprob],
    tolerance: f32,
    greedy: bool,
    what: &str,
) -> bool {
    assert_eq!(plain.len(), drafting.len(), "{what}");
    for (place, (left, right)) in plain.iter().zip(drafting).enumerate() {
        if left.token != right.token {
            let gap = left.top[0].1 - left.top[1].1;
            assert!(
                !greedy || gap < tolerance,
                "{what}: the texts part at {place}: {left:?}, {right:?}"
            );
            return false;
        }
        assert!(
            (left.logprob - right.logprob).abs() < tolerance,
            "{what}: at {place} {left:?} became {right:?}"
        );
    }
    true
}
