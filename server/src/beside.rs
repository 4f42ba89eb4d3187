//! Work on large bodies beside the threads that serve requests, and the memory for it.

use graphmill_llm::room::{self, Claim};
use tokio::task::spawn_blocking;

use crate::errors::{Cause, Failure};

/// What the stack of a thread takes of the address space: tokio's default.
const STACK_BYTES: u64 = 2 << 20;

/// Does work that may take long. `panicked` says what went wrong if it panics.
///
/// # Errors
/// If there is no memory for one more thread, or the work panics.
pub(crate) async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
    panicked: &'static str,
) -> Result<T, Failure> {
    let claim = claim(STACK_BYTES)?;
    let working = spawn_blocking(move || {
        let _claim = claim;
        work()
    });
    working
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
