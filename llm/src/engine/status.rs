//! The status of an engine: values published by its thread, and values read on request.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::handle::LlmEngine;
use super::sequence::Sequence;
use super::standing::Standings;
use crate::cache::PrefixStatus;
use crate::lock::lock;
use crate::measure::{Counter, Recorders};
use crate::settings::AdapterSpec;
use crate::vision::{Vision, VisionStatus};
use crate::worker::{Places, Pulse, whole_seconds};

/// State that the engine thread shares with its readers.
#[derive(Debug, Default)]
pub(super) struct EngineState {
    /// Liveness of the thread, also shared with the guard that reports its end.
    pub(super) pulse: Arc<Pulse>,
    /// Places in the queue, held by sequences before their first admission, and by requests that
    /// make their prompt.
    pub(super) places: Arc<Places>,
    pub(super) standings: Standings,
    /// The part of the status that only the thread knows.
    published: Mutex<LlmEngineStatus>,
    /// Number of waiting sequences that were preempted.
    pub(super) preempted: Counter,
    /// Average time until a slot becomes free while sequences wait, in microseconds.
    pub(super) freed_micros: Counter,
    /// Bit mask of the adapters of running sequences; the next field is that of waiting ones.
    pub(super) adapters_running: Counter,
    pub(super) adapters_waiting: Counter,
    pub(super) measured: Recorders,
}

impl EngineState {
    /// Microseconds since the engine was started.
    pub(super) fn now(&self) -> i64 {
        self.pulse.age().as_micros() as i64
    }

    /// Locks the published status, to change it.
    pub(super) fn published(&self) -> MutexGuard<'_, LlmEngineStatus> {
        lock(&self.published)
    }
}

impl LlmEngine {
    /// Present state of the engine.
    pub fn status(&self) -> LlmEngineStatus {
        let (shared, known) = (&self.shared, &self.spec.adapters);
        let preparing = shared.places.preparing();
        let freed = Duration::from_micros(shared.freed_micros.get());
        let images = self.vision.as_ref().map(Vision::status);
        // Each value changes independently, so the values read here may not fit together.
        let submitted = shared.places.taken().saturating_sub(preparing);
        let waiting = submitted + shared.preempted.get() as u32;
        LlmEngineStatus {
            model: self.vocab.model_name().to_owned(),
            sequences_waiting: waiting,
            adapters_running: adapter_names(shared.adapters_running.get(), known),
            adapters_waiting: adapter_names(shared.adapters_waiting.get(), known),
            requests_preparing: preparing,
            queue_time: freed.saturating_mul(waiting.saturating_add(preparing)),
            prompt_tokens_waiting: shared.places.tokens(),
            refused: shared.places.refused.get(),
            kv_cells_total: self.capacity.total_cells,
            context_length: self.capacity.cells_per_sequence,
            images: images.unwrap_or_default(),
            idle: shared.pulse.idle(),
            stopped: shared.pulse.stopped(),
            stalled_for: shared.pulse.stalled_for(),
            ..shared.published().clone()
        }
    }
}

/// Returns a bit for each adapter of the sequences; adapters behind the 64th are omitted.
pub(super) fn adapter_bits<'a>(sequences: impl Iterator<Item = &'a Sequence>) -> u64 {
    let adapters = sequences.flat_map(|sequence| sequence.group.adapters.iter());
    adapters
        .filter(|adapter| adapter.number < u64::BITS)
        .fold(0, |bits, adapter| bits | 1 << adapter.number)
}

/// Returns the names of the adapters whose bits are set.
fn adapter_names(bits: u64, adapters: &[AdapterSpec]) -> Vec<String> {
    let numbered = (0..u64::BITS).zip(adapters);
    let set = numbered.filter(|(number, _)| bits >> number & 1 == 1);
    set.map(|(_, adapter)| adapter.name.clone()).collect()
}

/// Present state of an engine, and its counts since it was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LlmEngineStatus {
    /// Model name, from its file.
    #[serde(skip)]
    pub model: String,
    /// Number of sequences that have a slot in the batches.
    pub sequences_running: u32,
    /// Number of sequences that wait for a slot.
    pub sequences_waiting: u32,
    /// Names of the adapters of running sequences.
    #[serde(skip)]
    pub adapters_running: Vec<String>,
    /// Names of the adapters of waiting sequences.
    #[serde(skip)]
    pub adapters_waiting: Vec<String>,
    /// Number of requests that have a place in the queue and make their prompt.
    pub requests_preparing: u32,
    /// Estimated time until all sequences that wait now have had a slot, at the pace at which slots
    /// became free since the queue began.
    #[serde(skip)]
    pub queue_time: Duration,
    /// Number of prompt tokens of sequences that wait for their first slot.
    pub prompt_tokens_waiting: u64,
    /// Number of requests refused because the queue was full.
    pub refused: u64,
    /// Number of KV cells that hold a token. A cell that several sequences share counts once.
    pub kv_cells_used: u32,
    /// Number of KV cells in the cache.
    pub kv_cells_total: u32,
    /// Maximum number of tokens of a sequence.
    #[serde(skip)]
    pub context_length: u32,
    /// Figures of the prefix cache.
    pub prefix_cache: PrefixStatus,
    /// Figures of images and sounds.
    #[serde(rename = "image_cache")]
    pub images: VisionStatus,
    /// Number of steps that did not fail.
    pub steps: u64,
    /// Target, expected and measured times of steps.
    pub step: StepStatus,
    /// Number of computed prompt tokens, including those computed again after a preemption.
    pub prompt_tokens: u64,
    /// Number of generated tokens, end tokens included.
    pub generated_tokens: u64,
    /// Number of drafted tokens that were computed to check them.
    pub drafted_tokens: u64,
    /// Number of drafted tokens that became part of a text; they are also counted as generated.
    pub accepted_tokens: u64,
    /// Number of times that a sequence lost its cells and must be computed again.
    pub preemptions: u64,
    /// Number of times that a sequence was moved to another slot to close a gap in the batches.
    pub moves: u64,
    /// Number of steps that failed or panicked.
    pub failed_steps: u64,
    /// Time that the engine has had work without making progress; zero while it is idle.
    #[serde(rename = "stalled_seconds", serialize_with = "whole_seconds")]
    pub stalled_for: Duration,
    /// True if there is nothing to compute.
    #[serde(skip)]
    pub idle: bool,
    /// True if the engine's thread has ended.
    pub stopped: bool,
}

/// Times of an engine's steps, in the status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StepStatus {
    /// Target time of a step that also decodes: `target_step_ms`, or the engine's choice for the
    /// last step.
    #[serde(rename = "target_ms", serialize_with = "milliseconds")]
    pub target: Duration,
    /// Expected time of the last planned step.
    #[serde(rename = "expected_ms", serialize_with = "milliseconds")]
    pub expected: Duration,
    /// Median time of the last 64 steps; zero before the first.
    #[serde(rename = "median_ms", serialize_with = "milliseconds")]
    pub median: Duration,
    /// Maximum number of prompt tokens in the last planned step.
    pub prompt_tokens: u32,
}

fn milliseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_micros() as f64 / 1e3)
}
