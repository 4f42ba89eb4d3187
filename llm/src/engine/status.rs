//! The status of an engine: the figures that its thread publishes, and how they are read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::adapters;
use super::standing::Standings;
use crate::backend::Capacity;
use crate::measure::{Counter, Recorders};
use crate::spec::AdapterSpec;
use crate::vision::VisionStatus;
use crate::worker::{self, Places, Pulse};

/// Numbers that the engine thread publishes, each for display by itself.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Shared with the thread's end, which comes after all else.
    pub(super) pulse: Arc<Pulse>,
    /// Of the queue: taken by sequences not yet admitted for the first time, and by requests that
    /// make their prompt.
    pub(super) places: Arc<Places>,
    pub(super) standings: Standings,
    /// Admitted before, preempted, waiting again.
    pub(super) preempted: Counter,
    pub(super) running: Counter,
    /// For each slot that becomes free while sequences wait.
    pub(super) freed_micros: Counter,
    /// A bit for each adapter that running and waiting sequences have.
    pub(super) adapters_running: Counter,
    pub(super) adapters_waiting: Counter,
    pub(super) cells_used: Counter,
    pub(super) steps: Counter,
    pub(super) prompt_tokens: Counter,
    pub(super) generated_tokens: Counter,
    pub(super) drafted_tokens: Counter,
    pub(super) accepted_tokens: Counter,
    pub(super) preemptions: Counter,
    pub(super) moves: Counter,
    pub(super) failed_steps: Counter,
    pub(super) prefix_queries: Counter,
    pub(super) prefix_hits: Counter,
    pub(super) prefix_evicted: Counter,
    pub(super) saved_cells: Counter,
    pub(super) saved_bytes: Counter,
    pub(super) checkpoints: Counter,
    pub(super) checkpoint_bytes: Counter,
    pub(super) checkpoint_hits: Counter,
    pub(super) checkpoints_dropped: Counter,
    pub(super) target_micros: Counter,
    pub(super) expected_micros: Counter,
    pub(super) median_micros: Counter,
    pub(super) prompt_limit: Counter,
    pub(super) measured: Recorders,
}

impl Shared {
    /// Microseconds since the engine was started.
    pub(super) fn now(&self) -> i64 {
        self.pulse.age().as_micros() as i64
    }

    /// What the engine of a model with this name is doing.
    pub(super) fn status(
        &self,
        model: String,
        capacity: &Capacity,
        known: &[AdapterSpec],
    ) -> LlmEngineStatus {
        let time = |micros: &Counter| Duration::from_micros(micros.get());
        let preparing = self.places.preparing();
        let freed = time(&self.freed_micros);
        // Each changes by itself, so what is read of them need not fit together.
        let submitted = self.places.taken().saturating_sub(preparing);
        let waiting = submitted + self.preempted.get() as u32;
        LlmEngineStatus {
            model,
            sequences_running: self.running.get() as u32,
            sequences_waiting: waiting,
            adapters_running: adapters::names(self.adapters_running.get(), known),
            adapters_waiting: adapters::names(self.adapters_waiting.get(), known),
            requests_preparing: preparing,
            queue_time: freed.saturating_mul(waiting.saturating_add(preparing)),
            prompt_tokens_waiting: self.places.tokens(),
            refused: self.places.refused(),
            kv_cells_used: self.cells_used.get() as u32,
            kv_cells_total: capacity.total_cells,
            context_length: capacity.cells_per_sequence,
            steps: self.steps.get(),
            prompt_tokens: self.prompt_tokens.get(),
            generated_tokens: self.generated_tokens.get(),
            drafted_tokens: self.drafted_tokens.get(),
            accepted_tokens: self.accepted_tokens.get(),
            preemptions: self.preemptions.get(),
            moves: self.moves.get(),
            failed_steps: self.failed_steps.get(),
            prefix_queries: self.prefix_queries.get(),
            prefix_hits: self.prefix_hits.get(),
            prefix_tokens: self.saved_cells.get(),
            prefix_bytes: self.saved_bytes.get(),
            prefix_evicted: self.prefix_evicted.get(),
            checkpoints: self.checkpoints.get(),
            checkpoint_bytes: self.checkpoint_bytes.get(),
            checkpoint_hits: self.checkpoint_hits.get(),
            checkpoints_dropped: self.checkpoints_dropped.get(),
            images: VisionStatus::default(),
            step_target: time(&self.target_micros),
            step_expected: time(&self.expected_micros),
            step_median: time(&self.median_micros),
            prompt_chunk: self.prompt_limit.get() as u32,
            idle: self.pulse.idle(),
            stopped: self.pulse.stopped(),
            last_heartbeat: self.pulse.last_beat(),
        }
    }
}

/// What an engine is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LlmEngineStatus {
    /// The model's name.
    pub model: String,
    /// Sequences that have a place in the batches.
    pub sequences_running: u32,
    /// Sequences that wait for one.
    pub sequences_waiting: u32,
    /// The adapters of sequences that have a place.
    pub adapters_running: Vec<String>,
    /// The adapters of sequences that wait for one.
    pub adapters_waiting: Vec<String>,
    /// Requests that have a place in the queue and make their prompt.
    pub requests_preparing: u32,
    /// About how long it takes until all that wait now have had a place in the batches, at the pace
    /// at which places have become free since the queue began.
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
    pub context_length: u32,
    /// Steps computed.
    pub steps: u64,
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
    /// Prompt tokens that were looked up in the prefix cache, each prompt once.
    pub prefix_queries: u64,
    /// Prompt tokens that were found there, and so not computed.
    pub prefix_hits: u64,
    /// Tokens of finished sequences whose cells are kept in host memory.
    pub prefix_tokens: u64,
    /// Bytes of these cells.
    pub prefix_bytes: u64,
    /// Tokens whose cells were dropped from host memory to keep its limit.
    pub prefix_evicted: u64,
    /// Checkpoints in host memory, which models with recurrent layers or sliding windows need
    /// beside cells.
    pub checkpoints: u64,
    /// Their bytes.
    pub checkpoint_bytes: u64,
    /// How often a sequence went on from one.
    pub checkpoint_hits: u64,
    /// How many were dropped to keep their limit.
    pub checkpoints_dropped: u64,
    /// What was read of images and sounds.
    pub images: VisionStatus,
    /// The time that a step beside decodes should not exceed: `target_step_ms`, or what the engine
    /// chose for the last step.
    pub step_target: Duration,
    /// The time that the last planned step was expected to take.
    pub step_expected: Duration,
    /// The median time of the last 64 steps; zero before the first.
    pub step_median: Duration,
    /// Most prompt tokens that the last planned step had room for.
    pub prompt_chunk: u32,
    /// Whether there is nothing to compute.
    pub idle: bool,
    /// Whether the engine's thread has ended.
    pub stopped: bool,
    /// When the engine last began or ended a step or became idle.
    pub last_heartbeat: Instant,
}

impl LlmEngineStatus {
    /// How long the engine has had work without making progress; zero while it is idle.
    pub fn stalled_for(&self) -> Duration {
        worker::stalled_for(self.idle, self.last_heartbeat)
    }
}
