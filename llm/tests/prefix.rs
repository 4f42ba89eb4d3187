//! Prefix sharing with a scripted model, in both layouts of the KV cache. The backend checks that
//! every token finds the cells of all tokens before it; the tests compare the engine's numbers with
//! the backend's at every step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use graphmill_llm::backend::scripted::{Script, ScriptedBackend};
use graphmill_llm::{
    FinishReason, GenerationRequest, LlmEngine, LlmEngineSpec, PluginConfig, SequenceHandle,
    StepOutput, Token, Usage,
};
use proptest::prelude::*;

mod support;

/// What a test sees, in one order.
#[derive(Debug)]
enum Event {
    /// A step is about to be computed, with that many cells in use.
    Step(usize),
    Output(usize, StepOutput),
}

/// An engine whose steps are taken one by one, and what it put out.
struct Bench {
    /// Before the engine, whose thread ends only if no step waits for a permit.
    gate: Sender<()>,
    engine: LlmEngine,
    events: Receiver<Event>,
    to_events: Sender<Event>,
    handles: BTreeMap<usize, SequenceHandle>,
    done: BTreeMap<usize, (Vec<Token>, FinishReason, Usage)>,
    texts: BTreeMap<usize, Vec<Token>>,
}

impl Bench {
    fn new(script: Script, spec: LlmEngineSpec) -> Self {
        let (gate, permits) = mpsc::channel::<()>();
        let (to_events, events) = mpsc::channel();
        let reports = to_events.clone();
        let report = move |backend: &ScriptedBackend| {
            reports.send(Event::Step(backend.cells_used())).ok(); // the test may be over
            permits.recv().ok(); // without a gate, steps run freely
        };
        Self {
            engine: support::gated(script, spec, report),
            gate,
            events,
            to_events,
            handles: BTreeMap::new(),
            done: BTreeMap::new(),
            texts: BTreeMap::new(),
        }
    }

    fn start(&mut self, name: usize, prompt: &[Token], max_tokens: u32, salt: &str) {
        let sender = self.to_events.clone();
        let mut request = GenerationRequest::new(prompt.to_vec(), move |output| {
            sender.send(Event::Output(name, output)).ok(); // the test may be over
        });
        request.max_tokens = Some(max_tokens);
        request.cache_salt = Arc::from(salt);
        let handle = self.engine.submit(request).expect("accepted");
        self.handles.insert(name, handle);
    }

    fn cancel(&mut self, name: usize) {
        self.handles.remove(&name);
    }

    /// Lets the engine come to its next step, and compares its numbers with the backend's. False if
    /// nothing is left to do.
    fn reach_step(&mut self) -> bool {
        loop {
            let running = |bench: &Self| {
                let mut handles = bench.handles.keys();
                handles.any(|name| !bench.done.contains_key(name))
            };
            if !running(self) {
                return false;
            }
            let event = self.events.recv_timeout(Duration::from_secs(20));
            match event.expect("the engine goes on") {
                Event::Step(cells) => {
                    assert_eq!(self.engine.status().kv_cells_used as usize, cells);
                    return true;
                }
                Event::Output(name, output) => {
                    let text = self.texts.entry(name).or_default();
                    text.extend(output.tokens);
                    if let Some(finish) = output.finish {
                        self.done.insert(name, (text.clone(), finish, output.usage));
                    }
                }
            }
        }
    }

    fn take_step(&mut self) {
        self.gate.send(()).expect("the engine runs");
    }

    /// Steps until all that were started have ended.
    fn finish(&mut self) {
        while self.reach_step() {
            self.take_step();
        }
    }

    /// Runs one generation alone and returns its usage.
    fn run(&mut self, name: usize, prompt: &[Token]) -> Usage {
        self.start(name, prompt, 4, "");
        self.finish();
        let (text, _, usage) = &self.done[&name];
        assert_eq!(*text, expected(prompt, 4));
        *usage
    }
}

/// What the scripted model generates outside of a chat.
fn expected(prompt: &[Token], length: usize) -> Vec<Token> {
    let last = prompt[prompt.len() - 1];
    (1..=length as Token)
        .map(|step| (last + step) % 256)
        .collect()
}

fn spec(streams: bool) -> LlmEngineSpec {
    LlmEngineSpec {
        max_num_batched_tokens: 64,
        max_num_seqs: 32,
        plugin_config: PluginConfig {
            kv_unified: Some(!streams),
            ..PluginConfig::default()
        },
        ..LlmEngineSpec::new("test.script.json")
    }
}

const LAYOUTS: [bool; 2] = [false, true];

/// A beginning that tests share, with an end of its own for each number.
fn prompt(beginning: usize, end: usize) -> Vec<Token> {
    let shared = (0..beginning).map(|index| (index * 7 % 250) as Token);
    let own = (0..20).map(|index| ((index + end * 13) % 250) as Token);
    shared.chain([251, end as Token]).chain(own).collect()
}

#[test]
fn what_a_finished_sequence_computed_is_taken_over() {
    for streams in LAYOUTS {
        let mut bench = Bench::new(Script::default(), spec(streams));
        assert_eq!(bench.run(0, &prompt(100, 0)).cached_tokens, 0);
        // 100 of the beginning and the token that ends it.
        assert_eq!(bench.run(1, &prompt(100, 1)).cached_tokens, 101);
        assert_eq!(bench.run(2, &prompt(60, 0)).cached_tokens, 60);
        // The same prompt again: only its last token is computed.
        let again = prompt(100, 1);
        assert_eq!(bench.run(3, &again).cached_tokens as usize, again.len() - 1);
        // A chat that goes on: everything but the last generated token was computed before.
        let mut longer = again.clone();
        longer.extend(expected(&again, 4));
        let known = longer.len() as u32 - 1;
        longer.extend([9, 9, 9]);
        assert_eq!(bench.run(4, &longer).cached_tokens, known);
        let status = bench.engine.status();
        assert_eq!(status.kv_cells_used, 0);
        assert!(status.prefix_tokens > 0 && status.prefix_bytes == 12 * status.prefix_tokens);
        let hits = 101 + 60 + again.len() as u64 - 1 + u64::from(known);
        assert_eq!(status.prefix_hits, hits);
        assert_eq!(status.prompt_tokens, status.prefix_queries - hits);
    }
}

#[test]
fn a_second_request_computes_only_its_end_while_the_first_generates() {
    for streams in LAYOUTS {
        let mut bench = Bench::new(Script::default(), spec(streams));
        bench.start(0, &prompt(100, 0), 50, "");
        for _ in 0..5 {
            bench.reach_step();
            bench.take_step();
        }
        bench.reach_step();
        let before = bench.engine.status();
        bench.start(1, &prompt(100, 1), 4, "");
        // It arrives while a step is held up at the gate, and takes part in the next one.
        for _ in 0..2 {
            bench.take_step();
            bench.reach_step();
        }
        let status = bench.engine.status();
        assert_eq!(status.prompt_tokens, before.prompt_tokens + 21);
        assert_eq!(status.sequences_running, 2);
        let new = status.kv_cells_used - before.kv_cells_used;
        // Two more of the first sequence; shared cells count once, copies count.
        assert!(if streams { new > 120 } else { new <= 24 }, "{new}");
        bench.take_step();
        bench.finish();
        assert_eq!(bench.done[&1].0, expected(&prompt(100, 1), 4));
        assert_eq!(bench.done[&0].0, expected(&prompt(100, 0), 50));
    }
}

#[test]
fn prompts_that_come_at_once_compute_their_beginning_once() {
    for streams in LAYOUTS {
        let mut bench = Bench::new(Script::default(), spec(streams));
        for name in 0..16 {
            bench.start(name, &prompt(303, name), 4, "");
        }
        // Another one with a beginning of its own does not wait behind them.
        bench.start(16, &[77; 40], 4, "");
        bench.finish();
        for name in 0..16 {
            assert_eq!(bench.done[&name].0, expected(&prompt(303, name), 4));
        }
        let status = bench.engine.status();
        assert_eq!(status.prompt_tokens, 304 + 16 * 21 + 40, "{status:?}");
        let cached: u32 = bench
            .done
            .values()
            .map(|(_, _, usage)| usage.cached_tokens)
            .sum();
        assert_eq!(cached, 15 * 304);
    }
}

#[test]
fn equal_prompts_are_computed_once() {
    for streams in LAYOUTS {
        let mut bench = Bench::new(Script::default(), spec(streams));
        let prompt = prompt(100, 0);
        for name in 0..4 {
            bench.start(name, &prompt, 4, "");
        }
        bench.finish();
        let computed = prompt.len() as u64 + 3;
        assert_eq!(bench.engine.status().prompt_tokens, computed);
        assert!(
            bench
                .done
                .values()
                .all(|(text, _, _)| *text == expected(&prompt, 4))
        );
    }
}

#[test]
fn when_the_first_is_cancelled_the_next_one_goes_on_from_there() {
    for streams in LAYOUTS {
        let mut bench = Bench::new(Script::default(), spec(streams));
        bench.start(0, &prompt(300, 0), 4, "");
        for name in 1..4 {
            bench.start(name, &prompt(300, name), 4, "");
        }
        for _ in 0..2 {
            bench.reach_step();
            bench.take_step();
        }
        bench.reach_step();
        bench.cancel(0);
        bench.take_step();
        bench.finish();
        for name in 1..4 {
            assert_eq!(bench.done[&name].0, expected(&prompt(300, name), 4));
        }
        // Whatever the first one had computed was not computed again.
        let computed = bench.engine.status().prompt_tokens;
        assert!(computed <= 301 + 4 * 21, "{computed}");
    }
}

#[test]
fn a_preempted_sequence_comes_back_without_computing_again() {
    for streams in LAYOUTS {
        let script = Script {
            cells: 200,
            ..Script::default()
        };
        let mut bench = Bench::new(script, spec(streams));
        let prompts = [vec![1; 60], vec![2; 60]];
        for (name, prompt) in prompts.iter().enumerate() {
            bench.start(name, prompt, 80, "");
        }
        bench.finish();
        for (name, prompt) in prompts.iter().enumerate() {
            assert_eq!(bench.done[&name].0, expected(prompt, 80));
        }
        let status = bench.engine.status();
        assert!(status.preemptions > 0);
        assert_eq!(status.prompt_tokens, 120);
    }
}

#[test]
fn the_limit_of_host_memory_holds() {
    for streams in LAYOUTS {
        let limited = LlmEngineSpec {
            prefix_cache_size: Some(8 * 200),
            ..spec(streams)
        };
        let mut bench = Bench::new(Script::default(), limited);
        for name in 0..8 {
            bench.run(name, &[name as Token + 1; 90]);
            assert!(bench.engine.status().prefix_bytes <= 8 * 200);
        }
        let status = bench.engine.status();
        assert_eq!(status.prefix_tokens + status.prefix_evicted, 8 * 93);
        assert_eq!(bench.run(8, &[8; 90]).cached_tokens, 89);
        assert_eq!(bench.run(9, &[1; 90]).cached_tokens, 0);
    }
}

#[test]
fn without_host_memory_live_sequences_are_shared_still() {
    for streams in LAYOUTS {
        let none = LlmEngineSpec {
            prefix_cache_size: Some(0),
            ..spec(streams)
        };
        let mut bench = Bench::new(Script::default(), none);
        for name in 0..4 {
            bench.start(name, &prompt(300, name), 4, "");
        }
        bench.finish();
        let status = bench.engine.status();
        assert_eq!(status.prompt_tokens, 301 + 4 * 21);
        assert_eq!(status.prefix_bytes, 0);
        assert_eq!(bench.run(9, &prompt(300, 9)).cached_tokens, 0);
    }
}

#[test]
fn another_salt_shares_nothing() {
    for streams in LAYOUTS {
        let mut bench = Bench::new(Script::default(), spec(streams));
        let prompt = prompt(100, 0);
        for (name, salt) in ["a", "b", "a"].into_iter().enumerate() {
            bench.start(name, &prompt, 4, salt);
            bench.finish();
        }
        let cached = |name: usize| bench.done[&name].2.cached_tokens as usize;
        assert_eq!([cached(0), cached(1)], [0, 0]);
        assert_eq!(cached(2), prompt.len() - 1);
    }
}

#[test]
fn switched_off_everything_is_computed() {
    let off = LlmEngineSpec {
        prefix_caching: false,
        ..spec(false)
    };
    let mut bench = Bench::new(Script::default(), off);
    for name in 0..4 {
        bench.start(name, &prompt(100, 0), 4, "");
    }
    bench.finish();
    assert_eq!(bench.run(4, &prompt(100, 0)).cached_tokens, 0);
    let status = bench.engine.status();
    assert_eq!(status.prompt_tokens, 5 * prompt(100, 0).len() as u64);
    assert_eq!((status.prefix_queries, status.prefix_tokens), (0, 0));
}

#[test]
fn a_failed_step_takes_the_cells_and_leaves_what_was_saved() {
    for streams in LAYOUTS {
        let script = Script {
            // The first generation takes two steps for its prompt and three more.
            fail_steps: vec![8],
            ..Script::default()
        };
        let mut bench = Bench::new(script, spec(streams));
        bench.run(0, &prompt(60, 0));
        bench.start(1, &prompt(60, 1), 10, "");
        bench.finish();
        assert!(matches!(bench.done[&1].1, FinishReason::Error(_)));
        assert_eq!(bench.engine.status().kv_cells_used, 0);
        // Of the failed sequence nothing is known, of the one before everything.
        assert_eq!(bench.run(2, &prompt(60, 1)).cached_tokens, 61);
    }
}

/// A step of a random workload.
#[derive(Clone, Debug)]
enum Action {
    Start {
        beginning: usize,
        end: usize,
        max_tokens: u32,
        salt: usize,
    },
    Cancel(usize),
    Steps(usize),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (0..80_usize, 0..4_usize, 1..30_u32, 0..8_usize).prop_map(|(beginning, end, max_tokens, salt)| {
            Action::Start { beginning, end, max_tokens, salt: salt / 7 }
        }),
        1 => (0..20_usize).prop_map(Action::Cancel),
        3 => (1..12_usize).prop_map(Action::Steps),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn any_workload_gives_the_texts_of_a_model_without_sharing(
        actions in prop::collection::vec(action(), 1..40),
        streams: bool,
        cells in 140..600_u32,
        host in prop_oneof![Just(0_u64), 200..4_000_u64],
        max_num_seqs in 1..9_u32,
        batch in 2..80_u32,
    ) {
        let spec = LlmEngineSpec {
            max_num_seqs,
            max_num_batched_tokens: batch,
            prefix_cache_size: Some(host),
            ..spec(streams)
        };
        let mut bench = Bench::new(Script { cells, ..Script::default() }, spec);
        let mut started = BTreeMap::new();
        let mut at_gate = false;
        for (name, action) in actions.into_iter().enumerate() {
            match action {
                Action::Start { beginning, end, max_tokens, salt } => {
                    let prompt = prompt(beginning, end);
                    bench.start(name, &prompt, max_tokens, ["", "other"][salt]);
                    started.insert(name, (prompt, max_tokens));
                }
                Action::Cancel(name) => bench.cancel(name),
                Action::Steps(steps) => {
                    for _ in 0..steps {
                        if at_gate {
                            bench.take_step();
                        }
                        at_gate = bench.reach_step();
                    }
                }
            }
        }
        if at_gate {
            bench.take_step();
        }
        bench.finish();
        for (name, (text, finish, _)) in &bench.done {
            let (prompt, max_tokens) = &started[name];
            prop_assert_eq!(finish, &FinishReason::Length);
            prop_assert_eq!(text, &expected(prompt, *max_tokens as usize));
        }
        prop_assert!(bench.engine.status().prefix_bytes <= host);
    }
}
