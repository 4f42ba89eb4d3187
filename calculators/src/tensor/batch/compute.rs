//! The threads that compute batches.
//!
//! When a batch fails, each of its requests is computed alone, so that one bad request does not
//! fail the others. When the model panics, the whole batch fails: the model's state is unknown, so
//! it is not called again for the same input.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use graphmill_engine::{Error, Result};

use super::rows::{self, RequestKind};
use super::schedule::{Next, QueuedRequest};
use super::shared::{Answer, SharedBatcher};
use crate::tensor::Tensor;

/// A request for the model.
pub(super) type Job = QueuedRequest<RequestKind, Vec<Tensor>>;

/// The reason why a batch has no outputs.
enum BatchFailure {
    /// The model returned an error, which may concern only one of the requests.
    Refused(Error),
    Panicked(Error),
}

/// The outputs of each request of a batch.
type BatchOutputs = Result<Vec<Vec<Tensor>>, BatchFailure>;

impl From<Error> for BatchFailure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl SharedBatcher {
    /// Computes batches until the batcher is dropped or this thread is one too many.
    pub(super) fn serve(&self) {
        loop {
            let mut state = self.lock();
            if state.stopping {
                return;
            }
            if state.computing > state.instances {
                state.computing -= 1;
                drop(state);
                // The notification that woke this thread may have been for work that another one
                // must do now.
                self.work.notify_one();
                return;
            }
            let now = Instant::now();
            if state.queue.due().is_some_and(|due| due <= now) {
                drop(state);
                self.expire(now);
                continue;
            }
            match state.queue.next(now) {
                Next::Run(jobs) => {
                    let more = state.queue.len() > 0;
                    drop(state);
                    if more {
                        self.work.notify_one();
                    }
                    self.compute(jobs);
                }
                Next::Wait(None) => drop(self.work.wait(state)),
                Next::Wait(Some(until)) => {
                    let time = until.saturating_duration_since(now);
                    drop(self.work.wait_timeout(state, time));
                }
            }
        }
    }

    /// Computes a batch and sends each request its answer.
    fn compute(&self, mut jobs: Vec<Job>) {
        jobs.retain(|job| self.is_open(job.number));
        if jobs.is_empty() {
            return;
        }
        let begun = Instant::now();
        for job in &jobs {
            self.measured.queued(begun - job.arrived);
        }
        match self.outputs(&jobs) {
            Err(BatchFailure::Refused(error)) if jobs.len() > 1 => {
                self.measured.failed_batches.add(1);
                tracing::debug!(name = self.info.model, %error, "a batch failed; its requests are computed one by one");
                for job in jobs.chunks(1) {
                    if self.is_open(job[0].number) {
                        self.conclude(job, begun, self.outputs(job));
                    }
                }
            }
            outputs => {
                self.measured
                    .failed_batches
                    .add(u64::from(outputs.is_err()));
                self.conclude(&jobs, begun, outputs);
            }
        }
    }

    /// Sends each request of a batch its outputs, or the error of the batch.
    fn conclude(&self, jobs: &[Job], begun: Instant, outputs: BatchOutputs) {
        match outputs {
            Ok(parts) => self.answer(jobs.iter().zip(parts).map(|(job, outputs)| {
                let queued = begun - job.arrived;
                (job.number, Ok(Answer { outputs, queued }))
            })),
            Err(BatchFailure::Refused(error) | BatchFailure::Panicked(error)) => {
                self.answer(jobs.iter().map(|job| (job.number, Err(error.clone()))));
            }
        }
    }

    /// Computes the outputs of each request of a batch.
    fn outputs(&self, jobs: &[Job]) -> BatchOutputs {
        let inputs = if let [job] = jobs {
            job.inputs.clone()
        } else {
            let parts: Vec<&[Tensor]> = jobs.iter().map(|job| &job.inputs[..]).collect();
            self.info.join(&parts)?
        };
        let rows: Vec<usize> = jobs.iter().map(|job| job.rows).collect();
        let begun = Instant::now();
        let ran = catch_unwind(AssertUnwindSafe(|| self.model.run(inputs)));
        self.measured
            .batch(begun.elapsed(), rows.iter().sum(), jobs.len());
        let outputs = match ran {
            Ok(outputs) => outputs?,
            Err(panic) => {
                let text = panic.downcast_ref::<&str>().copied();
                let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
                let message = text.unwrap_or("without a message").to_owned();
                // The payload of a panic may itself panic when it is dropped.
                mem::forget(panic);
                tracing::error!(name = self.info.model, message, "a model panicked");
                let error = Error::internal(format!("the model panicked: {message}"));
                return Err(BatchFailure::Panicked(error));
            }
        };
        let known = self.model.outputs().len();
        if known > 0 && known != outputs.len() {
            let found = outputs.len();
            let message = format!("the model gave {found} tensors, but it has {known} outputs");
            return Err(Error::internal(message).into());
        }
        Ok(rows::split(&outputs, &rows)?)
    }
}
