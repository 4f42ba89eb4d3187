//! Queries to sessions on their own thread, so that nothing delays them.

use std::{future, panic};

use tokio::{runtime::Handle, task};

/// Runs `look`, which queries sessions, on a thread that runs nothing else.
///
/// A session answers in its own task, and may compute there next. The answer would wake a task of
/// the runtime, which tokio may bind to the session's thread (its LIFO slot, which no other thread
/// can take from). That task would wait until the session has computed.
pub(crate) async fn run_on_thread<T: Send + 'static>(
    look: impl Future<Output = T> + Send + 'static,
) -> T {
    let runtime = Handle::current();
    match task::spawn_blocking(move || runtime.block_on(look)).await {
        Ok(seen) => seen,
        Err(error) if error.is_panic() => panic::resume_unwind(error.into_panic()),
        // The runtime ends, and drops this task.
        Err(_) => future::pending().await,
    }
}
