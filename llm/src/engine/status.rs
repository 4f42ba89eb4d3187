//! The status of an engine: what its thread publishes, and what is read with it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::adapters;
use super::standing::Standings;
use crate::backend::Capacity;
use crate::cache::PrefixStatus;
use crate::measure::{Counter, Recorders};
use crate::spec::AdapterSpec;
use crate::vision::VisionStatus;
use crate::worker::{Places, Pulse, whole_seconds};

/// State that the engine thread shares with those who look at it.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Shared with the thread's end, which comes after all else.
    pub(super) pulse: Arc<Pulse>,
    /// Of the queue: taken by sequences not yet admitted for the first time, and by requests that
    /// make their prompt.
    pub(super) places: Arc<Places>,
    pub(super) standings: Standings,
    /// The part of the status that the thread alone knows.
    published: Mutex<LlmEngineStatus>,
    /// Admitted before, preempted, waiting again.
    pub(super) preempted: Counter,
    /// For each slot that becomes free while sequences wait.
    pub(super) freed_micros: Counter,
    /// A bit for each adapter that running and waiting sequences have.
    pub(super) adapters_running: Counter,
    pub(super) adapters_waiting: Counter,
    pub(super) measured: Recorders,
}

impl Shared {
    /// Microseconds since the engine was started.
    pub(super) fn now(&self) -> i64 {
        self.pulse.age().as_micros() as i64
    }

    /// Returns what the thread publishes, to change it.
    pub(super) fn published(&self) -> MutexGuard<'_, LlmEngineStatus> {
        // No code that can panic runs under the lock.
        self.published
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What the engine of a model with this name is doing.
    pub(super) fn status(
        &self,
        model: String,
        capacity: &Capacity,
        known: &[AdapterSpec],
        images: VisionStatus,
    ) -> LlmEngineStatus {
        let preparing = self.places.preparing();
        let freed = Duration::from_micros(self.freed_micros.get());
        // Each changes by itself, so what is read of them need not fit together.
        let submitted = self.places.taken().saturating_sub(preparing);
        let waiting = submitted + self.preempted.get() as u32;
        LlmEngineStatus {
            model,
            sequences_waiting: waiting,
            adapters_running: adapters::names(self.adapters_running.get(), known),
            adapters_waiting: adapters::names(self.adapters_waiting.get(), known),
            requests_preparing: preparing,
            queue_time: freed.saturating_mul(waiting.saturating_add(preparing)),
            prompt_tokens_waiting: self.places.tokens(),
            refused: self.places.refused(),
            kv_cells_total: capacity.total_cells,
            context_length: capacity.cells_per_sequence,
            images,
            idle: self.pulse.idle(),
            stopped: self.pulse.stopped(),
            stalled_for: self.pulse.stalled_for(),
            ..self.published().clone()
        }
    }
}

/// Present state of an engine, and its counts since it was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LlmEngineStatus {
    /// The model's name.
    #[serde(skip)]
    pub model: String,
    /// Sequences that have a place in the batches.
    pub sequences_running: u32,
    /// Sequences that wait for one.
    pub sequences_waiting: u32,
    /// The adapters of sequences that have a place.
    #[serde(skip)]
    pub adapters_running: Vec<String>,
    /// The adapters of sequences that wait for one.
    #[serde(skip)]
    pub adapters_waiting: Vec<String>,
    /// Requests that have a place in the queue and make their prompt.
    pub requests_preparing: u32,
    /// About how long it takes until all that wait now have had a place in the batches, at the pace
    /// at which places have become free since the queue began.
    #[serde(skip)]
    pub queue_time: Duration,
    /// Tokens of the prompts of sequences that wait for their first place in the batches.
    pub prompt_tokens_waiting: u64,
    /// How often a request was refused because the queue was full.
    pub refused: u64,
    /// KV cells that hold a token. A cell that several sequences share counts once.
    pub kv_cells_used: u32,
    /// KV cells there are.
    pub kv_cells_total: u32,
    /// Most tokens of a sequence.
    #[serde(skip)]
    pub context_length: u32,
    /// Figures of the prefix cache.
    pub prefix_cache: PrefixStatus,
    /// Figures of images and sounds.
    #[serde(rename = "image_cache")]
    pub images: VisionStatus,
    /// Steps computed.
    pub steps: u64,
    /// Times of steps.
    pub step: StepStatus,
    /// Prompt tokens computed, those computed again after a preemption included.
    pub prompt_tokens: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// Drafted tokens computed to check them.
    pub drafted_tokens: u64,
    /// Drafted tokens that became part of a text; they are among the generated ones.
    pub accepted_tokens: u64,
    /// How often a sequence gave up its cells to be computed again.
    pub preemptions: u64,
    /// How often a sequence was moved to another slot to close a gap in the batches.
    pub moves: u64,
    /// Steps that failed or panicked.
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
    /// The time that a step beside decodes should not exceed: `target_step_ms`, or what the engine
    /// chose for the last step.
    #[serde(rename = "target_ms", serialize_with = "milliseconds")]
    pub target: Duration,
    /// The time that the last planned step was expected to take.
    #[serde(rename = "expected_ms", serialize_with = "milliseconds")]
    pub expected: Duration,
    /// The median time of the last 64 steps; zero before the first.
    #[serde(rename = "median_ms", serialize_with = "milliseconds")]
    pub median: Duration,
    /// Most prompt tokens that the last planned step had room for.
    pub prompt_tokens: u32,
}

fn milliseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_micros() as f64 / 1e3)
}
