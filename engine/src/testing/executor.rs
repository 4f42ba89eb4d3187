//! An executor for tests, which runs jobs on request.

use std::{collections::VecDeque, sync::Mutex};

use crate::{
    executor::{Executor, Job},
    lock::lock,
};

/// Queues jobs until [`ManualExecutor::run_one`] runs them on the calling thread.
#[derive(Default)]
pub struct ManualExecutor(Mutex<VecDeque<Job>>);

impl ManualExecutor {
    /// Runs the oldest job. Returns `false` if there is none.
    pub fn run_one(&self) -> bool {
        let job = lock(&self.0).pop_front();
        job.map(|job| job()).is_some()
    }

    /// Returns the number of queued jobs.
    pub fn waiting(&self) -> usize {
        lock(&self.0).len()
    }
}

impl Executor for ManualExecutor {
    fn spawn(&self, job: Job) {
        lock(&self.0).push_back(job);
    }
}
