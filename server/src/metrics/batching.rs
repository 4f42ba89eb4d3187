//! Metrics of batching nodes, read from their batchers at each scrape.

use graphmill_calculators::tensor::batch::BatcherMeasurements;

use super::families::{self, Family, LlmEngineLabels};
use crate::servable::Servables;

/// The figures of one batcher at a scrape.
pub(super) struct Reading {
    labels: LlmEngineLabels,
    waiting: usize,
    measured: BatcherMeasurements,
}

impl families::Reading for Reading {
    const FAMILIES: &'static [Family<Self>] = &[
        Family::gauge(
            "batching_requests_waiting",
            "Requests waiting for a batch",
            |reading| reading.waiting as f64,
        ),
        Family::counter("batching_batches", "Batches computed", |reading| {
            reading.measured.batch_rows.count
        }),
        Family::counter(
            "batching_failed_batches",
            "Batches that failed",
            |reading| reading.measured.failed_batches,
        ),
        Family::counter(
            "batching_queue_refusals",
            "Requests refused because too many waited",
            |reading| reading.measured.refused,
        ),
        Family::finished(
            "batching_finish",
            "Batched requests that ended, by reason",
            |reading| &reading.measured.finished,
        ),
        Family::seconds(
            "batching_queue_time",
            "Time from a request's arrival to the start of its batch",
            |reading| &reading.measured.queue_seconds,
        ),
        Family::seconds(
            "batching_batch_duration",
            "Time to compute a batch",
            |reading| &reading.measured.batch_seconds,
        ),
        Family::sizes("batching_batch_rows", "Rows in a batch", |reading| {
            &reading.measured.batch_rows
        }),
        Family::sizes(
            "batching_batch_requests",
            "Requests in a batch",
            |reading| &reading.measured.batch_requests,
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
