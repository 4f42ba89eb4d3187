//! Effective settings and measurements of a batcher.

use std::fmt;
use std::time::Duration;

use graphmill_llm::Histogram;
use graphmill_llm::measure::{Counter, REQUEST_SECONDS, Recorder, TOKEN_SECONDS};
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

/// Measurements of a batcher since it was created.
#[derive(Clone, Debug, PartialEq)]
pub struct BatcherMeasurements {
    /// Seconds from a request's arrival to the start of its batch.
    pub queue_seconds: Histogram,
    /// Seconds that each batch took to compute.
    pub batch_seconds: Histogram,
    /// Rows of each batch. Its count is the number of batches.
    pub batch_rows: Histogram,
    /// Number of requests in each batch.
    pub batch_requests: Histogram,
    /// Batches that failed. After that each request is computed alone, unless the model panicked.
    pub failed_batches: u64,
    /// Requests that ended, by outcome: `done`, `error`, `timeout` or `cancelled`.
    pub finished: [(&'static str, u64); 4],
    /// Requests that were refused because too many waited.
    pub refused: u64,
}

/// Recorders of a batcher's measurements, to which its threads write.
#[derive(Debug)]
pub(super) struct Recorders {
    queue: Recorder,
    batch: Recorder,
    rows: Recorder,
    requests: Recorder,
    pub(super) failed_batches: Counter,
    pub(super) done: Counter,
    pub(super) failed: Counter,
    pub(super) timed_out: Counter,
    pub(super) cancelled: Counter,
    pub(super) refused: Counter,
}

impl Default for Recorders {
    fn default() -> Self {
        Self {
            queue: Recorder::new(REQUEST_SECONDS),
            batch: Recorder::new(TOKEN_SECONDS),
            rows: Recorder::new(ROWS),
            requests: Recorder::new(ROWS),
            failed_batches: Counter::default(),
            done: Counter::default(),
            failed: Counter::default(),
            timed_out: Counter::default(),
            cancelled: Counter::default(),
            refused: Counter::default(),
        }
    }
}

impl Recorders {
    pub(super) fn queued(&self, time: Duration) {
        self.queue.record(time.as_secs_f64());
    }

    pub(super) fn batch(&self, took: Duration, rows: usize, requests: usize) {
        self.batch.record(took.as_secs_f64());
        self.rows.record(rows as f64);
        self.requests.record(requests as f64);
    }

    pub(super) fn read(&self) -> BatcherMeasurements {
        BatcherMeasurements {
            queue_seconds: self.queue.read(),
            batch_seconds: self.batch.read(),
            batch_rows: self.rows.read(),
            batch_requests: self.requests.read(),
            failed_batches: self.failed_batches.get(),
            finished: [
                ("done", self.done.get()),
                ("error", self.failed.get()),
                ("timeout", self.timed_out.get()),
                ("cancelled", self.cancelled.get()),
            ],
            refused: self.refused.get(),
        }
    }
}
