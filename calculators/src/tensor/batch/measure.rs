//! Effective settings and measurements of a batcher.

use std::fmt;
use std::time::Duration;

use graphmill_llm::declare_measurements;
use graphmill_llm::measure::{REQUEST_SECONDS, TOKEN_SECONDS};
use serde::Serialize;

use super::options::{Batching, InputDescription};
use crate::tensor::shown;

/// Upper bounds of the buckets for numbers of rows.
const ROWS: &[f64] = &[
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 4096.0,
];

/// Effective settings of a batcher. They do not change while it lives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BatcherInfo {
    /// Name of the model in messages and metrics.
    pub model: String,
    /// Limits and queues of the batches.
    #[serde(flatten)]
    pub batching: Batching,
    /// Descriptions of the model's inputs, as far as they are known.
    pub inputs: Vec<InputDescription>,
}

/// Writes the model and the limits of its batches, then a line for each input.
impl fmt::Display for BatcherInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Batching {
            max_batch_size,
            max_queue_delay_microseconds,
            instances,
            levels,
            ..
        } = &self.batching;
        write!(
            f,
            "batches of `{}`\n  at most {max_batch_size} rows, {max_queue_delay_microseconds} us for others; threads: {instances}, priority levels: {}",
            self.model,
            levels.len()
        )?;
        for input in &self.inputs {
            write!(f, "\n  input `{}`:", input.name)?;
            match input.datatype {
                Some(datatype) => write!(f, " {datatype}")?,
                None => f.write_str(" any datatype")?,
            }
            if !input.shape.is_empty() {
                write!(f, " {}", shown(&input.shape))?;
            }
        }
        Ok(())
    }
}

declare_measurements! {
    /// Measurements of a batcher since it was created.
    pub struct BatcherMeasurements from pub(super) Recorders;
    histograms {
        /// Seconds from a request's arrival to the start of its batch.
        queue_seconds: REQUEST_SECONDS,
        /// Seconds that each batch took to compute.
        batch_seconds: TOKEN_SECONDS,
        /// Rows of each batch. Its count is the number of batches.
        batch_rows: ROWS,
        /// Number of requests in each batch.
        batch_requests: ROWS,
    }
    counters {
        /// Batches that failed. After that each request is computed alone, unless the model
        /// panicked.
        failed_batches,
        /// Requests that were refused because too many waited.
        refused,
    }
    /// Requests that ended, by outcome: `done`, `error`, `timeout` or `cancelled`.
    finished {
        done: "done",
        failed: "error",
        timed_out: "timeout",
        cancelled: "cancelled",
    }
}

impl Recorders {
    pub(super) fn queued(&self, time: Duration) {
        self.queue_seconds.record(time.as_secs_f64());
    }

    pub(super) fn batch(&self, took: Duration, rows: usize, requests: usize) {
        self.batch_seconds.record(took.as_secs_f64());
        self.batch_rows.record(rows as f64);
        self.batch_requests.record(requests as f64);
    }
}
