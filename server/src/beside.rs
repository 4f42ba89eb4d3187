//! Long work on large bodies, done outside of the threads that serve requests, and the memory for
//! it.

use std::sync::Arc;

use graphmill_engine::Lane;
use graphmill_llm::memory_budget::{self, Claim};
use tokio::sync::oneshot;

use crate::errors::{Cause, Failure};

/// Runs long work for a request on the executor where graphs compute. Owners take turns there.
/// `panicked` is the error message if the work panics. Work whose request has ended is not started.
///
/// # Errors
/// If there are no threads, or the work panics.
pub(crate) async fn beside<T: Send + 'static>(
    lane: &Lane,
    owner: Option<&Arc<str>>,
    work: impl FnOnce() -> T + Send + 'static,
    panicked: &'static str,
) -> Result<T, Failure> {
    lane.start()?;
    let (done, result) = oneshot::channel();
    let job = move || {
        if !done.is_closed() {
            // Fails if the request has ended.
            let _ = done.send(work());
        }
    };
    lane.spawn(owner, Box::new(job));
    let failed = |_| Failure::new(Cause::Panic, panicked);
    result.await.map_err(failed)
}

/// Claims memory for the work that follows.
///
/// # Errors
/// The error for the client, if there is not enough memory.
pub(crate) fn claim(bytes: u64) -> Result<Claim, Failure> {
    memory_budget::claim(bytes).map_err(|error| {
        Failure::new(Cause::Unavailable, error.to_string()).with_code("insufficient_memory")
    })
}
