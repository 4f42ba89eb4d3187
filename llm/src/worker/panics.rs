//! Panics that end a step or a request, but not the thread.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `f` and turns a panic into its message.
pub(crate) fn catch<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => {
            let text = payload.downcast_ref::<&str>().copied();
            text.unwrap_or("panic without a message").to_owned()
        }
    })
}
