//! The metrics of the engines that embed and rank, read at each scrape from what they publish.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use graphmill_llm::{
    Histogram,
    embed::{EmbeddingMeasurements, EmbeddingStatus},
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};

use crate::servable::Servables;

/// Reads all engines.
pub(super) struct Engines(Weak<Servables>);

#[derive(Clone, Debug, EncodeLabelSet)]
struct EngineLabels {
    /// The first graph that uses the engine.
    graph: String,
    model: String,
}

#[derive(Clone, Debug, EncodeLabelSet)]
struct FinishLabels {
    graph: String,
    model: String,
    reason: String,
}

/// What one engine says at a scrape.
struct Reading {
    labels: EngineLabels,
    status: EmbeddingStatus,
    measured: EmbeddingMeasurements,
}

impl Engines {
    pub(super) fn new(servables: &Arc<Servables>) -> Self {
        Self(Arc::downgrade(servables))
    }

    fn read(&self) -> Vec<Reading> {
        let Some(servables) = self.0.upgrade() else {
            return Vec::new();
        };
        let models = servables.embedding_models();
        let read = models.into_iter().map(|(graph, model)| {
            let status = model.engine().status();
            Reading {
                labels: EngineLabels {
                    graph,
                    model: status.model.clone(),
                },
                measured: model.engine().measurements(),
                status,
            }
        });
        read.collect()
    }
}

impl fmt::Debug for Engines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engines").finish_non_exhaustive()
    }
}

impl Collector for Engines {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let readings = self.read();
        for (name, help, value) in GAUGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for reading in &readings {
                ConstGauge::new(value(reading)).encode(family.encode_family(&reading.labels)?)?;
            }
        }
        let (name, help) = (
            "embedding_finish",
            "Requests for vectors or scores that ended, by why",
        );
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for reading in &readings {
            for (reason, count) in reading.measured.finished {
                let labels = FinishLabels {
                    graph: reading.labels.graph.clone(),
                    model: reading.labels.model.clone(),
                    reason: reason.to_owned(),
                };
                ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
            }
        }
        let (name, help) = ("embedding_failed_steps", "Steps that failed");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for reading in &readings {
            let counter = ConstCounter::new(reading.measured.failed_steps);
            counter.encode(family.encode_family(&reading.labels)?)?;
        }
        for (name, help, unit, value) in HISTOGRAMS {
            let kind = MetricType::Histogram;
            let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
            for reading in &readings {
                let histogram = value(&reading.measured);
                family
                    .encode_family(&reading.labels)?
                    .encode_histogram::<[(&str, &str); 0]>(
                        histogram.sum,
                        histogram.count,
                        &histogram.buckets,
                        None,
                    )?;
            }
        }
        Ok(())
    }
}

type Gauge = (&'static str, &'static str, fn(&Reading) -> f64);

const GAUGES: &[Gauge] = &[
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
        "embedding_engine_stalled_seconds",
        "How long the engine has had work without a step",
        |reading| reading.status.stalled_for().as_secs_f64(),
    ),
];

type Distribution = (
    &'static str,
    &'static str,
    Option<Unit>,
    fn(&EmbeddingMeasurements) -> &Histogram,
);

const HISTOGRAMS: &[Distribution] = &[
    (
        "embedding_duration",
        "From a request's submission to its vectors or scores",
        Some(Unit::Seconds),
        |measured| &measured.request_seconds,
    ),
    (
        "embedding_step_duration",
        "Of a step",
        Some(Unit::Seconds),
        |measured| &measured.step_seconds,
    ),
    (
        "embedding_batch_tokens",
        "Tokens of a step",
        None,
        |measured| &measured.step_tokens,
    ),
    (
        "embedding_batch_texts",
        "Texts of a step",
        None,
        |measured| &measured.step_texts,
    ),
];
