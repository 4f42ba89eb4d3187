//! Gaps between the slots of running sequences, which cost a backend with a per-sequence KV cache
//! time, are closed.

use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use graphmill_llm::backend::scripted::{Script, ScriptedBackend};
use graphmill_llm::{
    GenerationRequest, LlmEngine, LlmEngineSpec, PluginConfig, SequenceHandle, StepOutput, Token,
};

use crate::support;

/// An engine whose steps are taken one by one. A step is announced with the slots that hold cells
/// before it.
struct Bench {
    /// Before the engine, whose thread ends only if no step waits for a permit.
    gate: Sender<()>,
    engine: LlmEngine,
    steps: Receiver<Vec<u32>>,
}

impl Bench {
    fn new(streams: bool) -> Self {
        let (gate, permits) = mpsc::channel::<()>();
        let (to_steps, steps) = mpsc::channel();
        let report = move |backend: &ScriptedBackend| {
            let slots = backend.slots_used().map(|slot| slot.0).collect();
            to_steps.send(slots).ok(); // the test may be over
            permits.recv().ok(); // without a gate, steps run freely
        };
        let spec = LlmEngineSpec {
            max_num_seqs: 8,
            plugin_config: PluginConfig {
                kv_unified: Some(!streams),
                ..PluginConfig::default()
            },
            ..LlmEngineSpec::new("test.script.json")
        };
        Self {
            engine: support::gated(Script::default(), spec, report),
            gate,
            steps,
        }
    }

    fn start(&self, first: Token, max_tokens: u32) -> (SequenceHandle, Receiver<StepOutput>) {
        let (sender, outputs) = mpsc::channel();
        let mut request = GenerationRequest::new(vec![first; 20], move |output| {
            sender.send(output).ok(); // the test may be over
        });
        request.max_tokens = Some(max_tokens);
        (self.engine.submit(request).expect("accepted"), outputs)
    }

    /// Takes steps until one begins with cells in these slots; false if none of the next `most`
    /// does.
    fn reaches(&self, slots: &[u32], most: usize) -> bool {
        (0..most).any(|_| {
            let used = self.steps.recv_timeout(Duration::from_secs(20));
            self.gate.send(()).expect("the engine runs");
            used.expect("the engine goes on") == slots
        })
    }
}

/// The text of a sequence, taken to its end.
fn text(outputs: &Receiver<StepOutput>) -> Vec<Token> {
    let mut text = Vec::new();
    loop {
        let output = outputs.recv_timeout(Duration::from_secs(20));
        let output = output.expect("an output");
        text.extend(output.tokens);
        if output.finish.is_some() {
            return text;
        }
    }
}

fn counted(first: Token, length: usize) -> Vec<Token> {
    (1..=length as Token)
        .map(|step| (first + step) % 256)
        .collect()
}

#[test]
fn the_last_sequence_moves_into_a_gap() {
    let bench = Bench::new(true);
    let mut running: Vec<_> = (0..4).map(|number| bench.start(number, 100)).collect();
    assert!(bench.reaches(&[0, 1, 2, 3], 10));
    drop(running.remove(1));
    assert!(bench.reaches(&[0, 2, 3], 10), "the gap is there at first");
    assert!(bench.reaches(&[0, 1, 2], 10));
    assert_eq!(bench.engine.status().moves, 1);
    drop(bench.gate);
    for ((_handle, outputs), number) in running.iter().zip([0, 2, 3]) {
        assert_eq!(text(outputs), counted(number, 100));
    }
}

#[test]
fn a_new_sequence_takes_the_gap_first() {
    let bench = Bench::new(true);
    let mut running: Vec<_> = (0..4).map(|number| bench.start(number, 100)).collect();
    assert!(bench.reaches(&[0, 1, 2, 3], 10));
    drop(running.remove(1));
    running.push(bench.start(9, 100));
    assert!(bench.reaches(&[0, 1, 2, 3], 10));
    assert!(!bench.reaches(&[0, 1, 2], 20));
    assert_eq!(bench.engine.status().moves, 0);
}

#[test]
fn a_sequence_that_ends_soon_stays_where_it_is() {
    let bench = Bench::new(true);
    let long = bench.start(0, 100);
    let short = bench.start(1, 7);
    assert!(bench.reaches(&[0, 1], 10));
    drop(long);
    drop(bench.gate);
    assert_eq!(text(&short.1), counted(1, 7));
    assert_eq!(bench.engine.status().moves, 0);
}

#[test]
fn slots_of_a_pool_have_no_order() {
    let bench = Bench::new(false);
    let mut running: Vec<_> = (0..4).map(|number| bench.start(number, 100)).collect();
    assert!(bench.reaches(&[0, 1, 2, 3], 10));
    drop(running.remove(1));
    assert!(bench.reaches(&[0, 2, 3], 10));
    assert!(!bench.reaches(&[0, 1, 2], 20));
}
