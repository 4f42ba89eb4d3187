//! An executor for tests, which runs jobs on request.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use crate::executor::{Executor, Job};

/// Queues jobs until [`ManualExecutor::run_one`] runs them on the calling thread.
#[derive(Default)]
pub struct ManualExecutor(Mutex<VecDeque<Job>>);

impl ManualExecutor {
    /// Runs the oldest job. Returns `false` if there is none.
    pub fn run_one(&self) -> bool {
        let job = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        job.map(|job| job()).is_some()
    }

    /// Returns the number of queued jobs.
    pub fn waiting(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Executor for ManualExecutor {
    fn spawn(&self, job: Job) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(job);
    }
}
