//! An executor that runs its jobs when it is told to.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use crate::executor::{Executor, Job};

/// Keeps jobs until [`ManualExecutor::run_one`] runs them, in the calling thread.
#[derive(Default)]
pub struct ManualExecutor(Mutex<VecDeque<Job>>);

impl ManualExecutor {
    /// Runs the oldest job; false if there is none.
    pub fn run_one(&self) -> bool {
        let job = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        job.map(|job| job()).is_some()
    }

    /// How many jobs wait.
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
