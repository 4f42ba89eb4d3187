//! The metrics of the engines that embed and rank, read at each scrape from what they publish.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use graphmill_llm::embed::{EmbeddingMeasurements, EmbeddingStatus};
use graphmill_llm::{Health, LlmEngineState};
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder, registry::Unit};

use super::families::{self, Counter, Distribution, Gauge, LlmEngineLabels};
use crate::servable::Served;

/// Reads all engines.
pub(super) struct EmbeddingEngines(Weak<Served>);

/// What one engine says at a scrape.
struct Reading {
    labels: LlmEngineLabels,
    status: EmbeddingStatus,
    measured: EmbeddingMeasurements,
    health: Health,
    file_changed: bool,
}

impl families::Reading for Reading {
    fn labels(&self) -> &LlmEngineLabels {
        &self.labels
    }
}

impl EmbeddingEngines {
    pub(super) fn new(served: &Arc<Served>) -> Self {
        Self(Arc::downgrade(served))
    }

    fn read(&self) -> Vec<Reading> {
        let Some(servables) = self.0.upgrade().map(|served| served.now()) else {
            return Vec::new();
        };
        let models = servables.embedding_models();
        let read = models.into_iter().map(|(graph, name, model)| {
            let engine = model.engine();
            let status = engine.status();
            Reading {
                health: model.health(),
                labels: LlmEngineLabels { graph, model: name },
                measured: engine.measurements(),
                file_changed: engine.files().change().is_some(),
                status,
            }
        });
        read.collect()
    }
}

impl fmt::Debug for EmbeddingEngines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddingEngines").finish_non_exhaustive()
    }
}

impl Collector for EmbeddingEngines {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let readings = self.read();
        families::gauges(&mut encoder, &readings, GAUGES)?;
        families::counters(&mut encoder, &readings, COUNTERS)?;
        let name = (
            "embedding_finish",
            "Requests for vectors or scores that ended, by why",
        );
        families::finished(&mut encoder, &readings, name, |reading| {
            reading.measured.finished
        })?;
        families::histograms(&mut encoder, &readings, HISTOGRAMS)
    }
}

const GAUGES: &[Gauge<Reading>] = &[
    (
        "embedding_requests",
        "Requests for vectors or scores that have not ended",
        |reading| f64::from(reading.status.requests),
    ),
    (
        "embedding_engine_stopped",
        "1 if the engine's thread has ended",
        |reading| f64::from(u8::from(reading.status.stopped)),
    ),
    (
        "embedding_engine_up",
        "1 if the engine takes requests, 0 while it is started again or has failed for good",
        |reading| f64::from(u8::from(reading.health.state == LlmEngineState::Running)),
    ),
    (
        "embedding_engine_stalled_seconds",
        "How long the engine has had work without a step",
        |reading| reading.status.stalled_for().as_secs_f64(),
    ),
    (
        "embedding_model_file_changed",
        "1 if a file of the model was changed since it was loaded",
        |reading| f64::from(u8::from(reading.file_changed)),
    ),
];

const COUNTERS: &[Counter<Reading>] = &[
    (
        "embedding_queue_refusals",
        "Requests refused because too many waited",
        |reading| reading.status.refused,
    ),
    ("embedding_failed_steps", "Steps that failed", |reading| {
        reading.measured.failed_steps
    }),
    (
        "embedding_engine_restarts",
        "How often another engine was put in the place of one that failed",
        |reading| reading.health.restarts,
    ),
];

const HISTOGRAMS: &[Distribution<Reading>] = &[
    (
        "embedding_duration",
        "From a request's submission to its vectors or scores",
        Some(Unit::Seconds),
        |reading| &reading.measured.request_seconds,
    ),
    (
        "embedding_step_duration",
        "Of a step",
        Some(Unit::Seconds),
        |reading| &reading.measured.step_seconds,
    ),
    (
        "embedding_batch_tokens",
        "Tokens of a step",
        None,
        |reading| &reading.measured.step_tokens,
    ),
    (
        "embedding_batch_texts",
        "Texts of a step",
        None,
        |reading| &reading.measured.step_texts,
    ),
];
