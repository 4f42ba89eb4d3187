//! Work on large bodies beside the threads that serve requests, and the memory for it.

use std::sync::Arc;

use graphmill_engine::Lane;
use graphmill_llm::room::{self, Claim};
use tokio::sync::oneshot;

use crate::errors::{Cause, Failure};

/// Does work that may take long for a request of an owner, where graphs compute: owners take
/// turns there. `panicked` says what went wrong if it panics. Work that nobody waits for any more is not
/// begun.
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
            // Fails when nobody waits for it any more.
            let _ = done.send(work());
        }
    };
    lane.spawn(owner, Box::new(job));
    result
        .await
        .map_err(|_| Failure::new(Cause::Panic, panicked))
}

/// Claims memory for what is about to be done.
///
/// # Errors
/// The answer to the request, if there is not enough.
pub(crate) fn claim(bytes: u64) -> Result<Claim, Failure> {
    room::claim(bytes).map_err(|error| {
        Failure::new(Cause::Unavailable, error.to_string()).with_code("insufficient_memory")
    })
}
