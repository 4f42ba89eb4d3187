//! The metrics of the engines, read at each scrape from what they publish.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use graphmill_llm::{Health, LlmEngineInfo, LlmEngineState, LlmEngineStatus, Measurements};
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder, registry::Unit};

use super::families::{self, Counter, Distribution, Gauge, LlmEngineLabels};
use crate::servable::Served;

/// Reads all engines.
pub(super) struct LlmEngines(Weak<Served>);

/// What one engine says at a scrape.
pub(super) struct Reading {
    labels: LlmEngineLabels,
    pub(super) status: LlmEngineStatus,
    measured: Measurements,
    info: LlmEngineInfo,
    health: Health,
    file_changed: bool,
    /// Adapters that requests can name.
    pub(super) adapters: u32,
}

impl families::Reading for Reading {
    fn labels(&self) -> &LlmEngineLabels {
        &self.labels
    }
}

impl LlmEngines {
    pub(super) fn new(served: &Arc<Served>) -> Self {
        Self(Arc::downgrade(served))
    }

    pub(super) fn read(&self) -> Vec<Reading> {
        let Some(servables) = self.0.upgrade().map(|served| served.now()) else {
            return Vec::new();
        };
        let models = servables.models();
        let read = models.into_iter().map(|(graph, name, model)| {
            let engine = model.engine();
            let status = engine.status();
            Reading {
                health: model.health(),
                labels: LlmEngineLabels { graph, model: name },
                measured: engine.measurements(),
                info: engine.info().clone(),
                adapters: engine.spec().adapters.len() as u32,
                file_changed: engine.files().change().is_some(),
                status,
            }
        });
        read.collect()
    }
}

impl fmt::Debug for LlmEngines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmEngines").finish_non_exhaustive()
    }
}

impl Collector for LlmEngines {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let readings = self.read();
        families::gauges(&mut encoder, &readings, GAUGES)?;
        families::counters(&mut encoder, &readings, COUNTERS)?;
        let name = ("finish", "Generations that ended, by why");
        families::finished(&mut encoder, &readings, name, |reading| {
            reading.measured.finished
        })?;
        families::histograms(&mut encoder, &readings, HISTOGRAMS)
    }
}

const GAUGES: &[Gauge<Reading>] = &[
    (
        "requests_running",
        "Generations that have a place in the batches",
        |reading| f64::from(reading.status.sequences_running),
    ),
    (
        "requests_waiting",
        "Generations that wait for a place",
        |reading| f64::from(reading.status.sequences_waiting),
    ),
    (
        "requests_preparing",
        "Requests that have a place in the queue and make their prompt",
        |reading| f64::from(reading.status.requests_preparing),
    ),
    (
        "queued_prompt_tokens",
        "Tokens of the prompts of generations that wait for their first place",
        |reading| reading.status.prompt_tokens_waiting as f64,
    ),
    ("kv_cells_used", "KV cells that hold a token", |reading| {
        f64::from(reading.status.kv_cells_used)
    }),
    ("kv_cells", "KV cells there are", |reading| {
        f64::from(reading.status.kv_cells_total)
    }),
    (
        "kv_cells_total",
        "As graphmill_kv_cells, which takes its place",
        |reading| f64::from(reading.status.kv_cells_total),
    ),
    (
        "kv_usage_ratio",
        "Part of the KV cells that hold a token",
        usage,
    ),
    ("kv_cache_bytes", "Size of the KV cache", |reading| {
        reading
            .info
            .backend
            .kv
            .as_ref()
            .map_or(0.0, |kv| kv.bytes as f64)
    }),
    (
        "prefix_cache_tokens",
        "Tokens of finished generations whose cells are in host memory",
        |reading| reading.status.prefix_tokens as f64,
    ),
    (
        "prefix_cache_bytes",
        "Host memory of these cells",
        |reading| reading.status.prefix_bytes as f64,
    ),
    (
        "prefix_checkpoints",
        "Checkpoints in host memory, from which sequences of models with recurrent layers or sliding windows go on",
        |reading| reading.status.checkpoints as f64,
    ),
    (
        "prefix_checkpoint_bytes",
        "Host memory of the checkpoints",
        |reading| reading.status.checkpoint_bytes as f64,
    ),
    (
        "image_cache_images",
        "Encoded images and sounds in host memory",
        |reading| reading.status.images.kept as f64,
    ),
    (
        "image_cache_bytes",
        "Host memory of these images and sounds",
        |reading| reading.status.images.kept_bytes as f64,
    ),
    (
        "step_target_seconds",
        "How long a step may take while sequences generate",
        |reading| reading.status.step_target.as_secs_f64(),
    ),
    (
        "step_median_seconds",
        "Median of the last steps' times",
        |reading| reading.status.step_median.as_secs_f64(),
    ),
    (
        "engine_stopped",
        "1 if the engine's thread has ended",
        |reading| f64::from(u8::from(reading.status.stopped)),
    ),
    (
        "engine_up",
        "1 if the engine takes requests, 0 while it is started again or has failed for good",
        |reading| f64::from(u8::from(reading.health.state == LlmEngineState::Running)),
    ),
    (
        "engine_stalled_seconds",
        "How long the engine has had work without a step",
        |reading| reading.status.stalled_for().as_secs_f64(),
    ),
    (
        "model_file_changed",
        "1 if a file of the model was changed since it was loaded",
        |reading| f64::from(u8::from(reading.file_changed)),
    ),
];

fn usage(reading: &Reading) -> f64 {
    let total = reading.status.kv_cells_total.max(1);
    f64::from(reading.status.kv_cells_used) / f64::from(total)
}

const COUNTERS: &[Counter<Reading>] = &[
    (
        "queue_refusals",
        "Requests refused because the queue was full",
        |reading| reading.status.refused,
    ),
    ("prompt_tokens", "Prompt tokens computed", |reading| {
        reading.status.prompt_tokens
    }),
    ("generation_tokens", "Tokens generated", |reading| {
        reading.status.generated_tokens
    }),
    (
        "cached_prompt_tokens",
        "Prompt tokens of generations that ended which were reused instead of being computed",
        |reading| reading.measured.cached_tokens,
    ),
    (
        "prefix_queries",
        "Prompt tokens that were looked up in the prefix cache",
        |reading| reading.status.prefix_queries,
    ),
    (
        "prefix_hits",
        "Prompt tokens that were found in the prefix cache",
        |reading| reading.status.prefix_hits,
    ),
    (
        "prefix_evicted_tokens",
        "Tokens whose cells were dropped from host memory to keep its limit",
        |reading| reading.status.prefix_evicted,
    ),
    (
        "prefix_checkpoint_hits",
        "How often a generation went on from a checkpoint",
        |reading| reading.status.checkpoint_hits,
    ),
    (
        "prefix_checkpoints_dropped",
        "Checkpoints that were dropped to keep their limit",
        |reading| reading.status.checkpoints_dropped,
    ),
    (
        "image_cache_queries",
        "Images and sounds of requests that were looked up in the image cache",
        |reading| reading.status.images.queries,
    ),
    (
        "image_cache_hits",
        "Images and sounds of requests that were found in the image cache",
        |reading| reading.status.images.hits,
    ),
    (
        "images_encoded",
        "Images and sounds, or tiles of them, that were encoded",
        |reading| reading.status.images.encoded,
    ),
    (
        "spec_tokens_drafted",
        "Drafted tokens computed to check them",
        |reading| reading.status.drafted_tokens,
    ),
    (
        "spec_tokens_accepted",
        "Drafted tokens that became part of a text",
        |reading| reading.status.accepted_tokens,
    ),
    (
        "engine_restarts",
        "How often another engine was put in the place of one that failed; the engine's other counters begin anew then",
        |reading| reading.health.restarts,
    ),
    ("steps", "Steps computed", |reading| reading.status.steps),
    ("failed_steps", "Steps that failed", |reading| {
        reading.status.failed_steps
    }),
    (
        "preemptions",
        "Generations that gave up their cells to be computed again",
        |reading| reading.status.preemptions,
    ),
];

const HISTOGRAMS: &[Distribution<Reading>] = &[
    (
        "queue_time",
        "From a generation's submission to its first admission",
        Some(Unit::Seconds),
        |reading| &reading.measured.queue_seconds,
    ),
    (
        "generation_first_token",
        "From a generation's submission to its first token",
        Some(Unit::Seconds),
        |reading| &reading.measured.first_token_seconds,
    ),
    (
        "inter_token_latency",
        "Between outputs of a generation",
        Some(Unit::Seconds),
        |reading| &reading.measured.inter_token_seconds,
    ),
    (
        "time_per_output_token",
        "For each token after the first, averaged over a generation",
        Some(Unit::Seconds),
        |reading| &reading.measured.token_seconds,
    ),
    (
        "generation_duration",
        "From a generation's submission to its end",
        Some(Unit::Seconds),
        |reading| &reading.measured.request_seconds,
    ),
    (
        "step_duration",
        "Of a step: computing the batch and choosing tokens",
        Some(Unit::Seconds),
        |reading| &reading.measured.step_seconds,
    ),
    ("batch_tokens", "Tokens of a step", None, |reading| {
        &reading.measured.step_tokens
    }),
    (
        "request_prompt_tokens",
        "Tokens of a prompt",
        None,
        |reading| &reading.measured.prompt_tokens,
    ),
    (
        "request_generation_tokens",
        "Tokens of a generation",
        None,
        |reading| &reading.measured.generated_tokens,
    ),
];
