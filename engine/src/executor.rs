//! Executors: named pools of threads for nodes that would hold up their session.
//!
//! An executor runs jobs and knows nothing of sessions; a job reports back to its session's inbox.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, OnceLock, PoisonError},
    thread::available_parallelism,
};

use crate::error::{Error, Result};

/// A piece of work.
pub type Job = Box<dyn FnOnce() + Send>;

/// Something that runs jobs on threads of its own.
pub trait Executor: Send + Sync {
    /// Makes sure that there are threads; called before a job is spawned.
    ///
    /// # Errors
    /// If the system gives no more threads.
    fn start(&self) -> Result<()> {
        Ok(())
    }

    /// Runs the job, some time. Never blocks and never runs it in the calling thread.
    fn spawn(&self, job: Job);
}

/// A work-stealing pool of threads, which start when the first job needs them. Dropping it lets the
/// jobs it has finish.
pub struct ThreadPool {
    name: String,
    threads: usize,
    stack_size: usize,
    pool: OnceLock<rayon_core::ThreadPool>,
    starting: Mutex<()>,
}

/// The stack of a thread, unless its pool has a larger one: nodes are tested with so much.
const STACK_BYTES: usize = 2 << 20;

impl ThreadPool {
    /// A pool of `threads` threads named after `name`; as many as the machine has cores if none are
    /// given.
    pub fn new(name: &str, threads: Option<usize>) -> Self {
        Self::with_stack(name, threads, 0)
    }

    /// Makes a pool like [`Self::new`], whose threads have a stack of this many bytes, and of 2 MiB
    /// at least.
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
        let _only = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
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
        // A job catches the panics of the node it runs; this guards the pool against one in what
        // remains.
        let guarded = move || {
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                tracing::error!("a job panicked outside of its node");
            }
        };
        match self.pool() {
            Ok(pool) => pool.spawn(guarded),
            Err(error) => tracing::error!("a job is lost: {error}"),
        }
    }
}

fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}
