//! The threads that compute, in parallel with a decode, the token masks of constrained sequences.

use std::num::NonZero;
use std::thread;

use rayon_core::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// Maximum number of threads that compute masks.
const MAX_THREADS: usize = 8;

/// Creates a pool of threads that compute masks, with the calling thread as one of them. Idle
/// threads sleep.
pub(super) fn threads(model: &str) -> Result<ThreadPool, ThreadPoolBuildError> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let model = model.to_owned();
    ThreadPoolBuilder::new()
        .num_threads(cores.min(MAX_THREADS))
        .thread_name(move |number| format!("mask {number} {model}"))
        .use_current_thread()
        .build()
}
