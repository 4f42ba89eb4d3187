//! Metrics of batching nodes, read from their batchers at each scrape.

use graphmill_calculators::tensor::batch::BatcherMeasurements;

use super::families::{
    EngineFigures, Family, Figures,
    Value::{Counter, Finished, Gauge, Seconds, Sizes},
};
use crate::servable::Servables;

/// The figures of one batcher at a scrape.
pub(super) struct BatcherFigures {
    waiting: usize,
    measured: BatcherMeasurements,
}

impl EngineFigures for BatcherFigures {
    const FAMILIES: &'static [Family<Self>] = &[
        Family(
            "batching_requests_waiting",
            "Requests waiting for a batch",
            Gauge(|it| it.waiting as f64),
        ),
        Family(
            "batching_batches",
            "Batches computed",
            Counter(|it| it.measured.batch_rows.count),
        ),
        Family(
            "batching_failed_batches",
            "Batches that failed",
            Counter(|it| it.measured.failed_batches),
        ),
        Family(
            "batching_queue_refusals",
            "Requests refused because too many waited",
            Counter(|it| it.measured.refused),
        ),
        Family(
            "batching_finish",
            "Batched requests that ended, by reason",
            Finished(|it| &it.measured.finished),
        ),
        Family(
            "batching_queue_time",
            "Time from a request's arrival to the start of its batch",
            Seconds(|it| &it.measured.queue_seconds),
        ),
        Family(
            "batching_batch_duration",
            "Time to compute a batch",
            Seconds(|it| &it.measured.batch_seconds),
        ),
        Family(
            "batching_batch_rows",
            "Rows in a batch",
            Sizes(|it| &it.measured.batch_rows),
        ),
        Family(
            "batching_batch_requests",
            "Requests in a batch",
            Sizes(|it| &it.measured.batch_requests),
        ),
    ];

    fn read(servables: &Servables) -> Vec<Figures<Self>> {
        let batchers = servables.batchers().into_iter();
        let read = batchers.map(|(graph, model, batcher)| {
            let figures = Self {
                waiting: batcher.waiting(),
                measured: batcher.measurements(),
            };
            ([("graph", graph), ("model", model)], figures)
        });
        read.collect()
    }
}
