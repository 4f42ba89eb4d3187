//! Executors: named pools of threads for nodes that would hold up their session.
//!
//! An executor runs jobs and knows nothing of sessions; a job reports back to its session's inbox.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread::available_parallelism,
};

/// A piece of work.
pub type Job = Box<dyn FnOnce() + Send>;

/// Something that runs jobs on threads of its own.
pub trait Executor: Send + Sync {
    /// Runs the job, some time. Never blocks and never runs it in the calling thread.
    fn spawn(&self, job: Job);
}

/// A work-stealing pool of threads. Dropping it lets the jobs it has finish.
pub struct ThreadPool(rayon_core::ThreadPool);

impl ThreadPool {
    /// A pool of `threads` threads named after `name`; as many as the machine has cores if none are
    /// given.
    pub fn new(
        name: &str,
        threads: Option<usize>,
    ) -> Result<Self, rayon_core::ThreadPoolBuildError> {
        Self::with_stack(name, threads, 0)
    }

    /// Makes a pool like [`Self::new`], whose threads have a stack of this many bytes; 0 is the
    /// platform's default.
    pub fn with_stack(
        name: &str,
        threads: Option<usize>,
        stack_size: usize,
    ) -> Result<Self, rayon_core::ThreadPoolBuildError> {
        let name = name.to_owned();
        let mut builder = rayon_core::ThreadPoolBuilder::new()
            .num_threads(threads.unwrap_or_else(cores))
            .thread_name(move |index| format!("{name}-{index}"));
        // As a wish, 0 would be the smallest stack that the system allows.
        if stack_size > 0 {
            builder = builder.stack_size(stack_size);
        }
        builder.build().map(Self)
    }
}

impl Executor for ThreadPool {
    fn spawn(&self, job: Job) {
        // A job catches the panics of the node it runs; this guards the pool against one in what
        // remains.
        self.0.spawn(move || {
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                tracing::error!("a job panicked outside of its node");
            }
        });
    }
}

fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}
