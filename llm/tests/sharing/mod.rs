//! Workloads on engines with a scripted model whose steps are taken one by one.

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

use crate::support;

/// What a test sees, in one order.
#[derive(Debug)]
enum Event {
    /// A step is about to be computed, with that many cells in use.
    Step(usize),
    Output(usize, StepOutput),
}

/// An engine whose steps are taken one by one, and what it put out.
pub(crate) struct Bench {
    /// Before the engine, whose thread ends only if no step waits for a permit.
    gate: Sender<()>,
    pub(crate) engine: LlmEngine,
    events: Receiver<Event>,
    to_events: Sender<Event>,
    handles: BTreeMap<usize, SequenceHandle>,
    pub(crate) done: BTreeMap<usize, (Vec<Token>, FinishReason, Usage)>,
    texts: BTreeMap<usize, Vec<Token>>,
}

impl Bench {
    pub(crate) fn new(script: Script, spec: LlmEngineSpec) -> Self {
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

    pub(crate) fn start(&mut self, name: usize, prompt: &[Token], max_tokens: u32, salt: &str) {
        self.start_turn(name, prompt, max_tokens, salt, None);
    }

    /// The same, for a conversation whose last turn begins behind so many tokens.
    pub(crate) fn start_turn(
        &mut self,
        name: usize,
        prompt: &[Token],
        max_tokens: u32,
        salt: &str,
        last_turn: Option<u32>,
    ) {
        let sender = self.to_events.clone();
        let mut request = GenerationRequest::new(prompt.to_vec(), move |output| {
            sender.send(Event::Output(name, output)).ok(); // the test may be over
        });
        request.max_tokens = Some(max_tokens);
        request.cache_salt = Arc::from(salt);
        request.last_turn = last_turn;
        let handle = self.engine.submit(request).expect("accepted");
        self.handles.insert(name, handle);
    }

    pub(crate) fn cancel(&mut self, name: usize) {
        self.handles.remove(&name);
    }

    /// Lets the engine come to its next step, and compares its numbers with the backend's. False if
    /// nothing is left to do.
    pub(crate) fn reach_step(&mut self) -> bool {
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

    pub(crate) fn take_step(&mut self) {
        self.gate.send(()).expect("the engine runs");
    }

    /// Steps until all that were started have ended.
    pub(crate) fn finish(&mut self) {
        while self.reach_step() {
            self.take_step();
        }
    }

    /// Runs one generation alone and returns its usage.
    pub(crate) fn run(&mut self, name: usize, prompt: &[Token]) -> Usage {
        self.start(name, prompt, 4, "");
        self.finish();
        let (text, _, usage) = &self.done[&name];
        assert_eq!(*text, expected(prompt, 4));
        *usage
    }

    /// Plays a random workload to its end. Returns what was started: the prompt and the limit of
    /// each.
    pub(crate) fn play(&mut self, actions: Vec<Action>) -> BTreeMap<usize, (Vec<Token>, u32)> {
        let mut started = BTreeMap::new();
        let mut at_gate = false;
        for (name, action) in actions.into_iter().enumerate() {
            match action {
                Action::Start {
                    beginning,
                    end,
                    max_tokens,
                    salt,
                } => {
                    let prompt = prompt(beginning, end);
                    self.start(name, &prompt, max_tokens, ["", "other"][salt]);
                    started.insert(name, (prompt, max_tokens));
                }
                Action::Cancel(name) => self.cancel(name),
                Action::Steps(steps) => {
                    for _ in 0..steps {
                        if at_gate {
                            self.take_step();
                        }
                        at_gate = self.reach_step();
                    }
                }
            }
        }
        if at_gate {
            self.take_step();
        }
        self.finish();
        started
    }
}

/// What the scripted model generates outside of a chat.
pub(crate) fn expected(prompt: &[Token], length: usize) -> Vec<Token> {
    let last = prompt[prompt.len() - 1];
    (1..=length as Token)
        .map(|step| (last + step) % 256)
        .collect()
}

pub(crate) fn spec(streams: bool) -> LlmEngineSpec {
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

pub(crate) const LAYOUTS: [bool; 2] = [false, true];

/// A beginning that tests share, with an end of its own for each number.
pub(crate) fn prompt(beginning: usize, end: usize) -> Vec<Token> {
    let shared = (0..beginning).map(|index| (index * 7 % 250) as Token);
    let own = (0..20).map(|index| ((index + end * 13) % 250) as Token);
    shared.chain([251, end as Token]).chain(own).collect()
}

/// A step of a random workload.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Start {
        beginning: usize,
        end: usize,
        max_tokens: u32,
        salt: usize,
    },
    Cancel(usize),
    Steps(usize),
}

pub(crate) fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (0..80_usize, 0..4_usize, 1..30_u32, 0..8_usize).prop_map(|(beginning, end, max_tokens, salt)| {
            Action::Start { beginning, end, max_tokens, salt: salt / 7 }
        }),
        1 => (0..20_usize).prop_map(Action::Cancel),
        3 => (1..12_usize).prop_map(Action::Steps),
    ]
}
