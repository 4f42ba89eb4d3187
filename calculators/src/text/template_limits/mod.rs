//! Limits on a chat template and its values, so that none ends the process. Parsers, compilers and
//! functions on values are recursive, and a thread's stack is finite.
//!
//! A template is checked before it is compiled, and compiled on a stack that is large enough for
//! every template within the limits. While it runs, the values of variables are checked, so that
//! values cannot get deeper from one turn of a loop to the next.

mod nesting;
mod source;

use std::io;
use std::thread;

pub(crate) use self::nesting::{check_level, data, held, is_dict};
pub(crate) use self::source::{TooMuch, check};

/// Size of the stack on which a template is compiled, in bytes. The largest template within the
/// limits of `source` takes less than a fourth of it.
const COMPILE_STACK: usize = 64 << 20;

/// Compiles a template on a stack of its own.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn on_own_stack<T: Send>(compile: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("template".to_owned());
        let thread = thread.stack_size(COMPILE_STACK);
        let compiled = thread.spawn_scoped(scope, compile)?.join();
        compiled.map_err(|_| io::Error::other("panic"))
    })
}
