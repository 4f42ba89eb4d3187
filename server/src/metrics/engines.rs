//! Metrics of LLM engines, read from their status at each scrape.

use graphmill_llm::{Health, LlmEngineInfo, LlmEngineState, LlmEngineStatus, Measurements};

use super::families::{
    EngineFigures, Family, Figures,
    Value::{Counter, Finished, Gauge, Seconds, Sizes},
};
use crate::servable::Servables;

/// The figures of one engine at a scrape.
pub(super) struct LlmEngineFigures {
    pub(super) status: LlmEngineStatus,
    measured: Measurements,
    info: LlmEngineInfo,
    health: Health,
    file_changed: bool,
    /// Number of adapters that requests can name.
    pub(super) adapters: u32,
}

impl EngineFigures for LlmEngineFigures {
    #[rustfmt::skip]
    const FAMILIES: &'static [Family<Self>] = &[
        Family("requests_running", "Generations with a slot", Gauge(|it| f64::from(it.status.sequences_running))),
        Family("requests_waiting", "Generations waiting for a slot", Gauge(|it| f64::from(it.status.sequences_waiting))),
        Family("requests_preparing", "Requests with a place in the queue whose prompt is being prepared", Gauge(|it| f64::from(it.status.requests_preparing))),
        Family("queued_prompt_tokens", "Prompt tokens of generations waiting for their first slot", Gauge(|it| it.status.prompt_tokens_waiting as f64)),
        Family("kv_cells_used", "KV cells that hold a token", Gauge(|it| f64::from(it.status.kv_cells_used))),
        Family("kv_cells", "Number of KV cells", Gauge(|it| f64::from(it.status.kv_cells_total))),
        Family("kv_cells_total", "Deprecated, use graphmill_kv_cells", Gauge(|it| f64::from(it.status.kv_cells_total))),
        Family("kv_usage_ratio", "Share of the KV cells that hold a token, from 0 to 1", Gauge(usage)),
        Family("kv_cache_bytes", "Size of the KV cache", Gauge(|it| it.info.backend.kv.as_ref().map_or(0.0, |kv| kv.bytes as f64))),
        Family("prefix_cache_tokens", "Tokens of finished generations whose cells are in host memory", Gauge(|it| it.status.prefix_cache.tokens as f64)),
        Family("prefix_cache_bytes", "Host memory of the cells of finished generations", Gauge(|it| it.status.prefix_cache.bytes as f64)),
        Family("prefix_checkpoints", "Checkpoints in host memory, for models with recurrent layers or sliding windows", Gauge(|it| it.status.prefix_cache.checkpoints.count as f64)),
        Family("prefix_checkpoint_bytes", "Host memory of the checkpoints", Gauge(|it| it.status.prefix_cache.checkpoints.bytes as f64)),
        Family("image_cache_images", "Encoded images and sounds in host memory", Gauge(|it| it.status.images.kept as f64)),
        Family("image_cache_bytes", "Host memory of encoded images and sounds", Gauge(|it| it.status.images.kept_bytes as f64)),
        Family("step_target_seconds", "Target time of a step while sequences generate", Gauge(|it| it.status.step.target.as_secs_f64())),
        Family("step_median_seconds", "Median time of the last steps", Gauge(|it| it.status.step.median.as_secs_f64())),
        Family("engine_stopped", "1 if the engine's thread has ended", Gauge(|it| f64::from(u8::from(it.status.stopped)))),
        Family("engine_up", "1 if the engine takes requests, 0 while it is restarting or after it has failed permanently", Gauge(|it| f64::from(u8::from(it.health.state == LlmEngineState::Running)))),
        Family("engine_stalled_seconds", "Seconds for which the engine has had work without a step", Gauge(|it| it.status.stalled_for.as_secs_f64())),
        Family("model_file_changed", "1 if a file of the model was changed since it was loaded", Gauge(|it| f64::from(u8::from(it.file_changed)))),
        Family("queue_refusals", "Requests refused because the queue was full", Counter(|it| it.status.refused)),
        Family("prompt_tokens", "Prompt tokens computed", Counter(|it| it.status.prompt_tokens)),
        Family("generation_tokens", "Tokens generated", Counter(|it| it.status.generated_tokens)),
        Family("cached_prompt_tokens", "Prompt tokens of ended generations that were reused instead of computed", Counter(|it| it.measured.cached_tokens)),
        Family("prefix_queries", "Prompt tokens that were looked up in the prefix cache", Counter(|it| it.status.prefix_cache.queries)),
        Family("prefix_hits", "Prompt tokens that were found in the prefix cache", Counter(|it| it.status.prefix_cache.hits)),
        Family("prefix_evicted_tokens", "Tokens whose cells were evicted from host memory because of its limit", Counter(|it| it.status.prefix_cache.evicted)),
        Family("prefix_checkpoint_hits", "Generations that continued from a checkpoint", Counter(|it| it.status.prefix_cache.checkpoints.hits)),
        Family("prefix_checkpoints_dropped", "Checkpoints evicted because of their limit", Counter(|it| it.status.prefix_cache.checkpoints.dropped)),
        Family("image_cache_queries", "Images and sounds of requests that were looked up in the image cache", Counter(|it| it.status.images.queries)),
        Family("image_cache_hits", "Images and sounds of requests that were found in the image cache", Counter(|it| it.status.images.hits)),
        Family("images_encoded", "Images and sounds, or tiles of them, that were encoded", Counter(|it| it.status.images.encoded)),
        Family("spec_tokens_drafted", "Drafted tokens that were checked", Counter(|it| it.status.drafted_tokens)),
        Family("spec_tokens_accepted", "Drafted tokens that were accepted", Counter(|it| it.status.accepted_tokens)),
        Family("engine_restarts", "Restarts of the engine after a failure, which reset its other counters to 0", Counter(|it| it.health.restarts)),
        Family("steps", "Steps computed", Counter(|it| it.status.steps)),
        Family("failed_steps", "Steps that failed", Counter(|it| it.status.failed_steps)),
        Family("preemptions", "Generations that lost their cells and are recomputed later", Counter(|it| it.status.preemptions)),
        Family("finish", "Generations that ended, by reason", Finished(|it| &it.measured.finished)),
        Family("queue_time", "Time from a generation's submission to its first admission", Seconds(|it| &it.measured.queue_seconds)),
        Family("generation_first_token", "Time from a generation's submission to its first token", Seconds(|it| &it.measured.first_token_seconds)),
        Family("inter_token_latency", "Time between outputs of a generation", Seconds(|it| &it.measured.inter_token_seconds)),
        Family("time_per_output_token", "Time per token after the first, averaged over a generation", Seconds(|it| &it.measured.token_seconds)),
        Family("generation_duration", "Time from a generation's submission to its end", Seconds(|it| &it.measured.request_seconds)),
        Family("step_duration", "Time of a step: computing the batch and sampling tokens", Seconds(|it| &it.measured.step_seconds)),
        Family("batch_tokens", "Tokens in a step", Sizes(|it| &it.measured.step_tokens)),
        Family("request_prompt_tokens", "Tokens in a prompt", Sizes(|it| &it.measured.prompt_tokens)),
        Family("request_generation_tokens", "Tokens generated for a generation", Sizes(|it| &it.measured.generated_tokens)),
    ];

    fn read(servables: &Servables) -> Vec<Figures<Self>> {
        let models = servables.models().into_iter();
        let read = models.map(|(graph, name, model)| {
            let engine = model.engine();
            let figures = Self {
                health: model.health(),
                measured: engine.measurements(),
                info: engine.info().clone(),
                adapters: engine.spec().adapters.len() as u32,
                file_changed: engine.files().change().is_some(),
                status: engine.status(),
            };
            ([("graph", graph), ("model", name)], figures)
        });
        read.collect()
    }
}

fn usage(engine: &LlmEngineFigures) -> f64 {
    let total = engine.status.kv_cells_total.max(1);
    f64::from(engine.status.kv_cells_used) / f64::from(total)
}
