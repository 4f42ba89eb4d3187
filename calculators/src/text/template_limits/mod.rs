//! Limits on what a chat template is and makes, so that none ends the process: parsers, compilers
//! and functions on values call themselves for each level of what they are given, and a thread's
//! stack is finite.
//!
//! A template is checked before it is compiled, and compiled on a stack for the most that passes.
//! While it runs, what variables hold is checked, so that nothing gets deeper from one turn of a
//! loop to the next.

mod nesting;
mod source;

use std::io;
use std::thread;

pub(crate) use self::nesting::{check_level, data, held, is_dict};
pub(crate) use self::source::{TooMuch, check};

/// The stack that a template is compiled on. One with all that `source` lets through takes less
/// than a fourth of it.
const COMPILE_STACK: usize = 64 << 20;

/// Compiles a template on a stack of its own.
///
/// # Errors
/// If there is no thread.
pub(crate) fn on_own_stack<T: Send>(compile: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("template".to_owned());
        let thread = thread.stack_size(COMPILE_STACK);
        let compiled = thread.spawn_scoped(scope, compile)?.join();
        compiled.map_err(|_| io::Error::other("panic"))
    })
}
