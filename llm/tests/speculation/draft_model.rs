//! Drafts of a draft model, which drafts where that pays.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use graphmill_llm::backend::scripted::Script;
use graphmill_llm::backend::{BatchToken, Capacity, DecodeError, DraftSupport, Slot};
use graphmill_llm::{
    Backend, DraftSource, GenerationRequest, LlmEngine, LlmEngineSpec, PluginConfig,
    SpeculationParams, StepOutput, SubmitError, Token,
};
use proptest::prelude::*;

use crate::speculating::{MAIN, Markov, markov_backend, same_texts, scripted, start, variants};

/// What a draft model was asked to compute.
#[derive(Debug, Default)]
struct Log {
    /// Tokens of each batch, and how many of them asked for logits.
    batches: Vec<(usize, usize)>,
    /// What it refused, which the engine must never ask for.
    refused: Vec<String>,
    /// Slots that have cells.
    most_slots: usize,
}

impl Log {
    fn drafted(&self) -> usize {
        self.batches.iter().map(|(_, rows)| rows).sum()
    }
}

/// A draft model that keeps its limits and a log.
struct Drafting {
    model: Markov,
    capacity: Capacity,
    log: Arc<Mutex<Log>>,
    slots: Vec<u32>,
    /// Batches after which it fails.
    lasts: usize,
}

fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().expect("nobody panics with the log")
}

impl Backend for Drafting {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn n_vocab(&self) -> usize {
        self.model.n_vocab()
    }

    fn decode(&mut self, batch: &[BatchToken]) -> Result<(), DecodeError> {
        let mut log = lock(&self.log);
        let rows = batch.iter().filter(|token| token.logits).count();
        log.batches.push((batch.len(), rows));
        if log.batches.len() > self.lasts {
            return Err(DecodeError::Failed("it is broken".to_owned()));
        }
        for token in batch {
            let cells = &mut self.slots[token.slot.0 as usize];
            if *cells != token.position {
                log.refused.push(format!("{token:?} after {cells} cells"));
            }
            *cells += 1;
        }
        let slots = self.slots.iter().filter(|cells| **cells > 0).count();
        log.most_slots = log.most_slots.max(slots);
        let longest = self.slots.iter().max().copied().unwrap_or(0);
        if batch.len() > self.capacity.max_batch_tokens as usize
            || longest > self.capacity.cells_per_sequence
            || self.slots.iter().sum::<u32>() > self.capacity.total_cells
        {
            log.refused
                .push(format!("{} tokens, slots {:?}", batch.len(), self.slots));
        }
        drop(log);
        self.model.decode(batch)
    }

    fn now(&self) -> Instant {
        self.model.now()
    }

    fn logits(&self) -> &[f32] {
        self.model.logits()
    }

    fn remove(&mut self, slot: Slot, from: u32) {
        let cells = &mut self.slots[slot.0 as usize];
        *cells = from.min(*cells);
        self.model.remove(slot, from);
    }

    fn remove_before(&mut self, _: Slot, _: u32) {
        unreachable!("a draft model shares nothing");
    }

    fn share(&mut self, _: Slot, _: Slot, _: u32) {
        unreachable!("a draft model shares nothing");
    }

    fn clear(&mut self) {
        self.slots.fill(0);
        self.model.clear();
    }
}

/// How a test's models are.
#[derive(Clone, Copy, Debug)]
struct Setup {
    /// Cells that the main model has, though it says 4096.
    cells: usize,
    support: DraftSupport,
    /// Most tokens of the main model's batches.
    batch: u32,
    /// Microseconds that the models take for a batch.
    takes: u64,
    draft_takes: u64,
    /// The draft model's number.
    draft: u64,
    draft_cells: u32,
    draft_slots: u32,
    draft_batch: u32,
    lasts: usize,
    controlled: bool,
}

const SETUP: Setup = Setup {
    cells: 4096,
    support: DraftSupport::AnyLength,
    batch: 256,
    takes: 1000,
    draft_takes: 10,
    draft: MAIN,
    draft_cells: 4096,
    draft_slots: 256,
    draft_batch: 256,
    lasts: usize::MAX,
    controlled: true,
};

fn engine(setup: Setup) -> (LlmEngine, Arc<Mutex<Log>>) {
    let spec = LlmEngineSpec {
        max_num_batched_tokens: setup.batch,
        plugin_config: PluginConfig {
            draft_control: Some(setup.controlled),
            ..PluginConfig::default()
        },
        ..LlmEngineSpec::new("test.script.json")
    };
    let log = Arc::new(Mutex::new(Log::default()));
    let (to_open, to_fill) = (spec.clone(), Arc::clone(&log));
    let open = move || {
        let (mut main, vocab) = markov_backend(&to_open, setup.cells);
        main.support = setup.support;
        main.takes = Duration::from_micros(setup.takes);
        let capacity = Capacity {
            total_cells: setup.draft_cells,
            cells_per_sequence: setup.draft_cells,
            max_sequences: setup.draft_slots,
            max_batch_tokens: setup.draft_batch,
            ..main.capacity()
        };
        let mut model = Markov::new(capacity, usize::MAX, setup.draft);
        model.takes = Duration::from_micros(setup.draft_takes);
        let draft = Drafting {
            model,
            capacity,
            log: to_fill,
            slots: vec![0; setup.draft_slots as usize],
            lasts: setup.lasts,
        };
        Ok((main, Some(draft), vocab))
    };
    let engine = LlmEngine::with_backends(spec, open).expect("the spec is valid");
    (engine, log)
}

fn from_model(num_assistant_tokens: u32) -> SpeculationParams {
    SpeculationParams {
        num_assistant_tokens,
        source: DraftSource::Model {
            confidence_threshold: 0.0,
        },
    }
}

fn setups() -> impl Strategy<Value = Setup> {
    (
        prop_oneof![Just(4096_usize), 200..600_usize],
        prop_oneof![
            Just(DraftSupport::AnyLength),
            Just(DraftSupport::SameLength)
        ],
        prop_oneof![Just(256_u32), 2..8_u32],
        prop_oneof![Just(MAIN), 0..3_u64],
        prop_oneof![Just(4096_u32), 60..400_u32],
        prop_oneof![Just(256_u32), 1..4_u32],
        prop_oneof![Just(256_u32), 2..40_u32],
        prop_oneof![Just(usize::MAX), 0..40_usize],
        0..1500_u64,
        any::<bool>(),
    )
        .prop_map(
            |(
                cells,
                support,
                batch,
                draft,
                draft_cells,
                draft_slots,
                draft_batch,
                lasts,
                draft_takes,
                controlled,
            )| Setup {
                cells,
                support,
                batch,
                takes: 1000,
                draft_takes,
                draft,
                draft_cells,
                draft_slots,
                draft_batch,
                lasts,
                controlled,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn drafts_change_nothing_alone_or_in_a_batch(
        variants in prop::collection::vec(variants(), 1..6),
        setup in setups(),
        threshold in prop_oneof![Just(0.0_f32), 0.0..1.0_f32],
    ) {
        let (engine, log) = engine(setup);
        let variants: Vec<_> = variants
            .into_iter()
            .enumerate()
            .map(|(index, mut variant)| {
                if index % 3 != 1 {
                    variant.speculation.source = DraftSource::Model { confidence_threshold: threshold };
                }
                variant
            })
            .collect();
        same_texts(
            &engine,
            variants.len(),
            |request, index, drafts| variants[index].apply(request, drafts),
            |index| index % 5 != 4,
        )?;
        let log = lock(&log);
        prop_assert!(log.refused.is_empty(), "{:?}", log.refused);
    }
}

fn long(request: &mut GenerationRequest) {
    request.max_tokens = Some(400);
    request.ignore_eos = true;
    request.speculation = Some(from_model(4));
}

#[test]
fn a_draft_model_that_is_right_saves_steps_and_the_counts_say_so() {
    let (engine, log) = engine(SETUP);
    let (said, usage, outputs) = start(&engine, long).finish();
    assert_eq!(said.tokens.len(), 400);
    assert!(outputs < 100, "{outputs} steps for 400 tokens");
    let drafts = usage.drafts.expect("it drafts");
    assert_eq!(drafts.accepted as usize, 400 - outputs);
    let status = engine.status();
    assert_eq!(status.accepted_tokens, u64::from(drafts.accepted));
    assert_eq!(
        status.drafted_tokens,
        u64::from(drafts.accepted + drafts.rejected)
    );
    assert!(lock(&log).drafted() >= drafts.accepted as usize);
}

#[test]
fn a_draft_model_that_does_not_pay_is_hardly_asked() {
    // It is right, and takes many times as long as the main model.
    let (engine, log) = engine(Setup {
        draft_takes: 8000,
        ..SETUP
    });
    start(&engine, long).finish();
    let drafted = lock(&log).drafted();
    assert!(drafted < 10, "{drafted} tokens were drafted for 400");
}

#[test]
fn without_control_as_many_are_drafted_as_asked_for() {
    for draft in [MAIN, MAIN + 1] {
        let (engine, _) = engine(Setup {
            draft_takes: 8000,
            draft,
            controlled: false,
            ..SETUP
        });
        let (_, usage, outputs) = start(&engine, long).finish();
        let drafts = usage.drafts.expect("it drafts");
        let drafted = (drafts.accepted + drafts.rejected) as usize;
        // Not in the first steps, and fewer at the end of the text.
        assert!(
            drafted > 4 * (outputs - 5),
            "{drafted} tokens in {outputs} steps"
        );
    }
}

#[test]
fn trials_of_drafts_that_never_come_true_take_a_small_part_of_the_time() {
    for (streams, support) in [
        (1, DraftSupport::AnyLength),
        (8, DraftSupport::AnyLength),
        (8, DraftSupport::SameLength),
    ] {
        let (engine, log) = engine(Setup {
            draft: MAIN + 1,
            draft_takes: 300,
            support,
            ..SETUP
        });
        let answers = || {
            let runs = (0..streams).map(|_| {
                start(&engine, |request| {
                    long(request);
                    request.max_tokens = Some(128);
                })
            });
            let outputs = runs
                .collect::<Vec<_>>()
                .into_iter()
                .map(|run| run.finish().2);
            outputs.max().expect("there are streams")
        };
        // The first texts teach that drafts do not come true.
        answers();
        let before = lock(&log).batches.len();
        let steps: usize = (0..10).map(|_| answers()).sum();
        let batches = lock(&log).batches.len() - before;
        let share = (300 * batches) as f64 / (1000 * steps) as f64;
        assert!(
            (0.001..0.015).contains(&share),
            "{streams} streams, {support:?}: {batches} batches in {steps} steps"
        );
    }
}

#[test]
fn a_long_text_is_caught_up_in_pieces_and_then_drafted() {
    let (engine, log) = engine(Setup {
        draft_batch: 32,
        ..SETUP
    });
    let (_, usage, _) = start(&engine, |request| {
        request.prompt = (0..900).map(|number| 97 + number % 5).collect();
        long(request);
    })
    .finish();
    let log = lock(&log);
    assert!(log.refused.is_empty(), "{:?}", log.refused);
    let (catching_up, _) = log.batches.split_at(900_usize.div_ceil(32) - 1);
    assert!(
        catching_up.iter().all(|(_, rows)| *rows == 0),
        "{catching_up:?}"
    );
    assert!(usage.drafts.expect("it drafts").accepted > 0, "{usage:?}");
}

#[test]
fn a_draft_model_that_fails_drafts_no_more_and_ends_nothing() {
    let (engine, log) = engine(Setup { lasts: 20, ..SETUP });
    let runs: Vec<_> = (0..3).map(|_| start(&engine, long)).collect();
    for run in runs {
        assert_eq!(run.finish().0.tokens.len(), 400);
    }
    assert_eq!(lock(&log).batches.len(), 21);
    let (_, usage, outputs) = start(&engine, long).finish();
    assert_eq!(outputs, 400);
    assert_eq!(usage.drafts.expect("it asked for drafts").accepted, 0);
}

#[test]
fn more_sequences_than_the_draft_model_has_places_for_take_turns() {
    let (engine, log) = engine(Setup {
        draft_slots: 2,
        ..SETUP
    });
    let runs: Vec<_> = (0..6).map(|_| start(&engine, long)).collect();
    for run in runs {
        assert_eq!(run.finish().0.tokens.len(), 400);
    }
    let log = lock(&log);
    assert!(log.refused.is_empty() && log.most_slots <= 2, "{log:?}");
    assert!(log.drafted() > 0, "nothing was drafted");
}

#[test]
fn a_sequence_that_sat_out_a_step_drafts_again() {
    let (engine, log) = engine(Setup { batch: 3, ..SETUP });
    let runs: Vec<_> = (0..6).map(|_| start(&engine, long)).collect();
    for run in runs {
        assert_eq!(run.finish().0.tokens.len(), 400);
    }
    let log = lock(&log);
    assert!(log.refused.is_empty(), "{log:?}");
    assert!(log.drafted() > 0, "nothing was drafted");
    assert!(log.batches.iter().all(|(tokens, _)| *tokens > 0), "{log:?}");
}

#[test]
fn a_token_below_the_threshold_is_not_drafted() {
    let (engine, log) = engine(SETUP);
    let (_, usage, outputs) = start(&engine, |request| {
        long(request);
        request.speculation = Some(SpeculationParams {
            num_assistant_tokens: 4,
            source: DraftSource::Model {
                confidence_threshold: 1.0,
            },
        });
    })
    .finish();
    assert_eq!(outputs, 400);
    assert_eq!(usage.drafts.expect("it asked for drafts").accepted, 0);
    assert!(lock(&log).drafted() > 0);
}

#[test]
fn a_request_for_a_draft_model_that_is_not_there_is_refused() {
    let engine = scripted(Script::default());
    let field = |speculation| {
        let mut request = GenerationRequest::new(vec![97 as Token], |_: StepOutput| {});
        request.speculation = Some(speculation);
        match engine.submit(request) {
            Err(SubmitError::InvalidParameter { field, .. }) => field,
            other => panic!("{:?}", other.map(|_| ())),
        }
    };
    assert_eq!(field(from_model(4)), "draft_models_path");
    let unsure = SpeculationParams {
        num_assistant_tokens: 4,
        source: DraftSource::Model {
            confidence_threshold: 1.5,
        },
    };
    assert_eq!(field(unsure), "assistant_confidence_threshold");
}
