//! Executors: named thread pools for nodes that would block their session.
//!
//! An executor runs jobs and knows nothing of sessions. Jobs report to their session's inbox.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, OnceLock},
    thread::available_parallelism,
};

use crate::{
    error::{Error, Result},
    lock::lock,
};

/// One unit of work for an executor.
pub type Job = Box<dyn FnOnce() + Send>;

/// A runner of jobs on threads of its own.
pub trait Executor: Send + Sync {
    /// Starts the threads if necessary. Called before each job is spawned.
    ///
    /// # Errors
    /// If the system cannot start more threads.
    fn start(&self) -> Result<()> {
        Ok(())
    }

    /// Queues the job. Never blocks and never runs it on the calling thread.
    fn spawn(&self, job: Job);
}

/// A work-stealing thread pool. Its threads start with the first job. Queued jobs still finish
/// after it is dropped.
pub struct ThreadPool {
    name: String,
    threads: usize,
    stack_size: usize,
    pool: OnceLock<rayon_core::ThreadPool>,
    starting: Mutex<()>,
}

/// Minimum stack size of a thread. Nodes are tested with this size.
const STACK_BYTES: usize = 2 << 20;

impl ThreadPool {
    /// Makes a pool of `threads` threads named after `name`. The default is the number of cores.
    pub fn new(name: &str, threads: Option<usize>) -> Self {
        Self::with_stack(name, threads, 0)
    }

    /// Makes a pool like [`Self::new`] whose threads have a stack of `stack_size` bytes, but at
    /// least 2 MiB.
    pub fn with_stack(name: &str, threads: Option<usize>, stack_size: usize) -> Self {
        Self {
            name: name.to_owned(),
            threads: threads.unwrap_or_else(cores),
            stack_size: stack_size.max(STACK_BYTES),
            pool: OnceLock::new(),
            starting: Mutex::new(()),
        }
    }

    fn pool(&self) -> Result<&rayon_core::ThreadPool> {
        if let Some(pool) = self.pool.get() {
            return Ok(pool);
        }
        let _only = lock(&self.starting);
        if let Some(pool) = self.pool.get() {
            return Ok(pool);
        }
        let name = self.name.clone();
        let started = rayon_core::ThreadPoolBuilder::new()
            .num_threads(self.threads)
            .thread_name(move |index| format!("{name}-{index}"))
            .stack_size(self.stack_size)
            .build();
        let pool = started.map_err(|error| {
            let (threads, name) = (self.threads, &self.name);
            let message = format!("cannot start {threads} threads of `{name}`: {error}");
            Error::unavailable(message)
        })?;
        Ok(self.pool.get_or_init(|| pool))
    }
}

impl Executor for ThreadPool {
    fn start(&self) -> Result<()> {
        self.pool().map(drop)
    }

    fn spawn(&self, job: Job) {
        // A job catches panics of its node; this protects the pool from panics elsewhere in the
        // job.
        let guarded = move || {
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                tracing::error!("a job panicked outside its node");
            }
        };
        match self.pool() {
            Ok(pool) => pool.spawn(guarded),
            Err(error) => tracing::error!("dropping a job: {error}"),
        }
    }
}

fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}
