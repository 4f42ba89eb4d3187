//! The metrics of the nodes that batch, read at each scrape from what their batchers say.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use graphmill_calculators::tensor::batch::BatcherMeasurements;
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder, registry::Unit};

use super::families::{self, Counter, Distribution, Gauge, LlmEngineLabels};
use crate::servable::Served;

/// Reads all batchers.
pub(super) struct Batchers(Weak<Served>);

/// What one batcher says at a scrape.
struct Reading {
    labels: LlmEngineLabels,
    waiting: usize,
    measured: BatcherMeasurements,
}

impl families::Reading for Reading {
    fn labels(&self) -> &LlmEngineLabels {
        &self.labels
    }
}

impl Batchers {
    pub(super) fn new(served: &Arc<Served>) -> Self {
        Self(Arc::downgrade(served))
    }

    fn read(&self) -> Vec<Reading> {
        let Some(servables) = self.0.upgrade().map(|served| served.now()) else {
            return Vec::new();
        };
        let batchers = servables.batchers();
        let read = batchers.into_iter().map(|(graph, model, batcher)| Reading {
            labels: LlmEngineLabels { graph, model },
            waiting: batcher.waiting(),
            measured: batcher.measurements(),
        });
        read.collect()
    }
}

impl fmt::Debug for Batchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batchers").finish_non_exhaustive()
    }
}

impl Collector for Batchers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let readings = self.read();
        families::gauges(&mut encoder, &readings, GAUGES)?;
        families::counters(&mut encoder, &readings, COUNTERS)?;
        let name = ("batching_finish", "Batched requests that ended, by why");
        families::finished(&mut encoder, &readings, name, |reading| {
            reading.measured.finished
        })?;
        families::histograms(&mut encoder, &readings, HISTOGRAMS)
    }
}

const GAUGES: &[Gauge<Reading>] = &[(
    "batching_requests_waiting",
    "Requests that wait for a batch",
    |reading| reading.waiting as f64,
)];

const COUNTERS: &[Counter<Reading>] = &[
    ("batching_batches", "Batches computed", |reading| {
        reading.measured.batch_rows.count
    }),
    (
        "batching_failed_batches",
        "Batches that failed",
        |reading| reading.measured.failed_batches,
    ),
    (
        "batching_queue_refusals",
        "Requests refused because too many waited",
        |reading| reading.measured.refused,
    ),
];

const HISTOGRAMS: &[Distribution<Reading>] = &[
    (
        "batching_queue_time",
        "From a request's arrival to the begin of its batch",
        Some(Unit::Seconds),
        |reading| &reading.measured.queue_seconds,
    ),
    (
        "batching_batch_duration",
        "Of a batch",
        Some(Unit::Seconds),
        |reading| &reading.measured.batch_seconds,
    ),
    ("batching_batch_rows", "Rows of a batch", None, |reading| {
        &reading.measured.batch_rows
    }),
    (
        "batching_batch_requests",
        "Requests of a batch",
        None,
        |reading| &reading.measured.batch_requests,
    ),
];
