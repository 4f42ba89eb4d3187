//! Metrics of batching nodes, read from their batchers at each scrape.

use graphmill_calculators::tensor::batch::BatcherMeasurements;

use super::families::{
    self, Family, LlmEngineLabels,
    Value::{Counter, Finished, Gauge, Seconds, Sizes},
};
use crate::servable::Servables;

/// The figures of one batcher at a scrape.
pub(super) struct Reading {
    labels: LlmEngineLabels,
    waiting: usize,
    measured: BatcherMeasurements,
}

impl families::Reading for Reading {
    const FAMILIES: &'static [Family<Self>] = &[
        Family(
            "batching_requests_waiting",
            "Requests waiting for a batch",
            Gauge(|reading| reading.waiting as f64),
        ),
        Family(
            "batching_batches",
            "Batches computed",
            Counter(|reading| reading.measured.batch_rows.count),
        ),
        Family(
            "batching_failed_batches",
            "Batches that failed",
            Counter(|reading| reading.measured.failed_batches),
        ),
        Family(
            "batching_queue_refusals",
            "Requests refused because too many waited",
            Counter(|reading| reading.measured.refused),
        ),
        Family(
            "batching_finish",
            "Batched requests that ended, by reason",
            Finished(|reading| &reading.measured.finished),
        ),
        Family(
            "batching_queue_time",
            "Time from a request's arrival to the start of its batch",
            Seconds(|reading| &reading.measured.queue_seconds),
        ),
        Family(
            "batching_batch_duration",
            "Time to compute a batch",
            Seconds(|reading| &reading.measured.batch_seconds),
        ),
        Family(
            "batching_batch_rows",
            "Rows in a batch",
            Sizes(|reading| &reading.measured.batch_rows),
        ),
        Family(
            "batching_batch_requests",
            "Requests in a batch",
            Sizes(|reading| &reading.measured.batch_requests),
        ),
    ];

    fn read(servables: &Servables) -> Vec<Self> {
        let batchers = servables.batchers().into_iter();
        let read = batchers.map(|(graph, model, batcher)| Self {
            labels: LlmEngineLabels { graph, model },
            waiting: batcher.waiting(),
            measured: batcher.measurements(),
        });
        read.collect()
    }

    fn labels(&self) -> &LlmEngineLabels {
        &self.labels
    }
}
