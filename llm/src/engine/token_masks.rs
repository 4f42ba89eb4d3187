//! The threads that compute, in parallel with a decode, the token masks of constrained sequences.

use std::num::NonZero;
use std::thread;

use rayon_core::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// Most threads that work out masks.
const MAX_THREADS: usize = 8;

/// Threads that work out masks with the calling one, which is one of them as long as they are
/// there. Without work they sleep.
pub(super) fn threads(model: &str) -> Result<ThreadPool, ThreadPoolBuildError> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let model = model.to_owned();
    ThreadPoolBuilder::new()
        .num_threads(cores.min(MAX_THREADS))
        .thread_name(move |number| format!("mask {number} {model}"))
        .use_current_thread()
        .build()
}
