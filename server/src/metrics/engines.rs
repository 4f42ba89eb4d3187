//! Metrics of LLM engines, read from their status at each scrape.

use graphmill_llm::{Health, LlmEngineInfo, LlmEngineState, LlmEngineStatus, Measurements};

use super::families::{self, Family, LlmEngineLabels};
use crate::servable::Servables;

/// The figures of one engine at a scrape.
pub(super) struct Reading {
    labels: LlmEngineLabels,
    pub(super) status: LlmEngineStatus,
    measured: Measurements,
    info: LlmEngineInfo,
    health: Health,
    file_changed: bool,
    /// Number of adapters that requests can name.
    pub(super) adapters: u32,
}

impl families::Reading for Reading {
    #[rustfmt::skip]
    const FAMILIES: &'static [Family<Self>] = &[
        Family::gauge("requests_running", "Generations with a slot", |it| f64::from(it.status.sequences_running)),
        Family::gauge("requests_waiting", "Generations waiting for a slot", |it| f64::from(it.status.sequences_waiting)),
        Family::gauge("requests_preparing", "Requests with a place in the queue whose prompt is being prepared", |it| f64::from(it.status.requests_preparing)),
        Family::gauge("queued_prompt_tokens", "Prompt tokens of generations waiting for their first slot", |it| it.status.prompt_tokens_waiting as f64),
        Family::gauge("kv_cells_used", "KV cells that hold a token", |it| f64::from(it.status.kv_cells_used)),
        Family::gauge("kv_cells", "Number of KV cells", |it| f64::from(it.status.kv_cells_total)),
        Family::gauge("kv_cells_total", "Deprecated, use graphmill_kv_cells", |it| f64::from(it.status.kv_cells_total)),
        Family::gauge("kv_usage_ratio", "Share of the KV cells that hold a token, from 0 to 1", usage),
        Family::gauge("kv_cache_bytes", "Size of the KV cache", |it| it.info.backend.kv.as_ref().map_or(0.0, |kv| kv.bytes as f64)),
        Family::gauge("prefix_cache_tokens", "Tokens of finished generations whose cells are in host memory", |it| it.status.prefix_cache.tokens as f64),
        Family::gauge("prefix_cache_bytes", "Host memory of the cells of finished generations", |it| it.status.prefix_cache.bytes as f64),
        Family::gauge("prefix_checkpoints", "Checkpoints in host memory, for models with recurrent layers or sliding windows", |it| it.status.prefix_cache.checkpoints.count as f64),
        Family::gauge("prefix_checkpoint_bytes", "Host memory of the checkpoints", |it| it.status.prefix_cache.checkpoints.bytes as f64),
        Family::gauge("image_cache_images", "Encoded images and sounds in host memory", |it| it.status.images.kept as f64),
        Family::gauge("image_cache_bytes", "Host memory of encoded images and sounds", |it| it.status.images.kept_bytes as f64),
        Family::gauge("step_target_seconds", "Target time of a step while sequences generate", |it| it.status.step.target.as_secs_f64()),
        Family::gauge("step_median_seconds", "Median time of the last steps", |it| it.status.step.median.as_secs_f64()),
        Family::gauge("engine_stopped", "1 if the engine's thread has ended", |it| f64::from(u8::from(it.status.stopped))),
        Family::gauge("engine_up", "1 if the engine takes requests, 0 while it is restarting or after it has failed permanently", |it| f64::from(u8::from(it.health.state == LlmEngineState::Running))),
        Family::gauge("engine_stalled_seconds", "Seconds for which the engine has had work without a step", |it| it.status.stalled_for.as_secs_f64()),
        Family::gauge("model_file_changed", "1 if a file of the model was changed since it was loaded", |it| f64::from(u8::from(it.file_changed))),
        Family::counter("queue_refusals", "Requests refused because the queue was full", |it| it.status.refused),
        Family::counter("prompt_tokens", "Prompt tokens computed", |it| it.status.prompt_tokens),
        Family::counter("generation_tokens", "Tokens generated", |it| it.status.generated_tokens),
        Family::counter("cached_prompt_tokens", "Prompt tokens of ended generations that were reused instead of computed", |it| it.measured.cached_tokens),
        Family::counter("prefix_queries", "Prompt tokens that were looked up in the prefix cache", |it| it.status.prefix_cache.queries),
        Family::counter("prefix_hits", "Prompt tokens that were found in the prefix cache", |it| it.status.prefix_cache.hits),
        Family::counter("prefix_evicted_tokens", "Tokens whose cells were evicted from host memory because of its limit", |it| it.status.prefix_cache.evicted),
        Family::counter("prefix_checkpoint_hits", "Generations that continued from a checkpoint", |it| it.status.prefix_cache.checkpoints.hits),
        Family::counter("prefix_checkpoints_dropped", "Checkpoints evicted because of their limit", |it| it.status.prefix_cache.checkpoints.dropped),
        Family::counter("image_cache_queries", "Images and sounds of requests that were looked up in the image cache", |it| it.status.images.queries),
        Family::counter("image_cache_hits", "Images and sounds of requests that were found in the image cache", |it| it.status.images.hits),
        Family::counter("images_encoded", "Images and sounds, or tiles of them, that were encoded", |it| it.status.images.encoded),
        Family::counter("spec_tokens_drafted", "Drafted tokens that were checked", |it| it.status.drafted_tokens),
        Family::counter("spec_tokens_accepted", "Drafted tokens that were accepted", |it| it.status.accepted_tokens),
        Family::counter("engine_restarts", "Restarts of the engine after a failure, which reset its other counters to 0", |it| it.health.restarts),
        Family::counter("steps", "Steps computed", |it| it.status.steps),
        Family::counter("failed_steps", "Steps that failed", |it| it.status.failed_steps),
        Family::counter("preemptions", "Generations that lost their cells and are recomputed later", |it| it.status.preemptions),
        Family::finished("finish", "Generations that ended, by reason", |it| &it.measured.finished),
        Family::seconds("queue_time", "Time from a generation's submission to its first admission", |it| &it.measured.queue_seconds),
        Family::seconds("generation_first_token", "Time from a generation's submission to its first token", |it| &it.measured.first_token_seconds),
        Family::seconds("inter_token_latency", "Time between outputs of a generation", |it| &it.measured.inter_token_seconds),
        Family::seconds("time_per_output_token", "Time per token after the first, averaged over a generation", |it| &it.measured.token_seconds),
        Family::seconds("generation_duration", "Time from a generation's submission to its end", |it| &it.measured.request_seconds),
        Family::seconds("step_duration", "Time of a step: computing the batch and sampling tokens", |it| &it.measured.step_seconds),
        Family::sizes("batch_tokens", "Tokens in a step", |it| &it.measured.step_tokens),
        Family::sizes("request_prompt_tokens", "Tokens in a prompt", |it| &it.measured.prompt_tokens),
        Family::sizes("request_generation_tokens", "Tokens generated for a generation", |it| &it.measured.generated_tokens),
    ];

    fn read(servables: &Servables) -> Vec<Self> {
        let models = servables.models().into_iter();
        let read = models.map(|(graph, name, model)| {
            let engine = model.engine();
            Self {
                health: model.health(),
                labels: LlmEngineLabels { graph, model: name },
                measured: engine.measurements(),
                info: engine.info().clone(),
                adapters: engine.spec().adapters.len() as u32,
                file_changed: engine.files().change().is_some(),
                status: engine.status(),
            }
        });
        read.collect()
    }

    fn labels(&self) -> &LlmEngineLabels {
        &self.labels
    }
}

fn usage(reading: &Reading) -> f64 {
    let total = reading.status.kv_cells_total.max(1);
    f64::from(reading.status.kv_cells_used) / f64::from(total)
}
