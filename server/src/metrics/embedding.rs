//! Metrics of engines that embed and rank, read from their status at each scrape.

use graphmill_llm::embed::{EmbeddingMeasurements, EmbeddingStatus};
use graphmill_llm::{Health, LlmEngineState};

use super::families::{
    EngineFigures, Family, Figures,
    Value::{Counter, Finished, Gauge, Seconds, Sizes},
};
use crate::servable::Servables;

/// The figures of one engine at a scrape.
pub(super) struct EmbeddingFigures {
    status: EmbeddingStatus,
    measured: EmbeddingMeasurements,
    health: Health,
    file_changed: bool,
}

impl EngineFigures for EmbeddingFigures {
    #[rustfmt::skip]
    const FAMILIES: &'static [Family<Self>] = &[
        Family("embedding_requests", "Requests for vectors or scores that have not ended", Gauge(|it| f64::from(it.status.requests))),
        Family("embedding_engine_stopped", "1 if the engine's thread has ended", Gauge(|it| f64::from(u8::from(it.status.stopped)))),
        Family("embedding_engine_up", "1 if the engine takes requests, 0 while it is restarting or after it has failed permanently", Gauge(|it| f64::from(u8::from(it.health.state == LlmEngineState::Running)))),
        Family("embedding_engine_stalled_seconds", "Seconds for which the engine has had work without a step", Gauge(|it| it.status.stalled_for.as_secs_f64())),
        Family("embedding_model_file_changed", "1 if a file of the model was changed since it was loaded", Gauge(|it| f64::from(u8::from(it.file_changed)))),
        Family("embedding_queue_refusals", "Requests refused because too many waited", Counter(|it| it.status.refused)),
        Family("embedding_failed_steps", "Steps that failed", Counter(|it| it.status.failed_steps)),
        Family("embedding_engine_restarts", "Restarts of the engine after a failure", Counter(|it| it.health.restarts)),
        Family("embedding_finish", "Requests for vectors or scores that ended, by reason", Finished(|it| &it.measured.finished)),
        Family("embedding_duration", "Time from a request's submission to its vectors or scores", Seconds(|it| &it.measured.request_seconds)),
        Family("embedding_step_duration", "Time to compute a step", Seconds(|it| &it.measured.step_seconds)),
        Family("embedding_batch_tokens", "Tokens in a step", Sizes(|it| &it.measured.step_tokens)),
        Family("embedding_batch_texts", "Texts in a step", Sizes(|it| &it.measured.step_texts)),
    ];

    fn read(servables: &Servables) -> Vec<Figures<Self>> {
        let models = servables.embedding_models().into_iter();
        let read = models.map(|(graph, name, model)| {
            let engine = model.engine();
            let figures = Self {
                health: model.health(),
                measured: engine.measurements(),
                file_changed: engine.files().change().is_some(),
                status: engine.status(),
            };
            ([("graph", graph), ("model", name)], figures)
        });
        read.collect()
    }
}
