//! Log lines of llama.cpp: they go to `tracing`, and to listeners during a call.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_void};

use llama_cpp_sys_2 as sys;

thread_local! {
    /// Log lines of this thread while [`listen`] runs.
    static HEARD: RefCell<Option<Heard>> = const { RefCell::new(None) };
    /// Receiver of each line while [`listen_with`] runs.
    static TOLD: Cell<Option<fn(&str)>> = const { Cell::new(None) };
}

/// Log lines of a call, with errors kept apart.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) errors: Vec<String>,
    /// All other lines, in order.
    pub(crate) lines: Vec<String>,
}

impl Heard {
    /// Joins the errors in one line; `otherwise` if there are none.
    pub(crate) fn complaint_or(&self, otherwise: &str) -> String {
        if self.errors.is_empty() {
            otherwise.to_owned()
        } else {
            self.errors.join("; ")
        }
    }
}

/// Sends the log lines of llama.cpp and ggml to `tracing`. Their level is lowered by one: their
/// information is a detail here.
pub(crate) fn route_logs() {
    // SAFETY: the callback is a plain function that lives as long as the program, and it takes no
    // user data.
    unsafe {
        sys::llama_log_set(Some(log_line), std::ptr::null_mut());
        #[cfg(feature = "vision")]
        sys::mtmd_log_set(Some(log_line), std::ptr::null_mut());
    }
}

/// Parts of warnings about intended situations.
const EXPECTED: [&str; 2] = [
    // All sequences together have more cells than one sequence may have. The engine limits the
    // length of each.
    "possible training context overflow",
    // Weights of the model are packed for the CPU, and those of adapters never are. The line comes
    // for each tensor of each adapter.
    "cannot use buft",
];

/// Receives one piece of log text. May be called on any thread, and must not unwind.
unsafe extern "C" fn log_line(
    level: sys::ggml_log_level,
    text: *const c_char,
    _user_data: *mut c_void,
) {
    if text.is_null() {
        return;
    }
    // SAFETY: llama.cpp passes a NUL-terminated text that stays valid for the duration of this
    // call.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let text = text.trim_end();
    if text.is_empty() || text == "." {
        return;
    }
    if level == sys::GGML_LOG_LEVEL_ERROR {
        return hear_error(text);
    }
    hear(|heard| heard.lines.push(text.to_owned()));
    if let Ok(Some(tell)) = TOLD.try_with(Cell::get) {
        tell(text);
    }
    let is_expected = EXPECTED.iter().any(|part| text.contains(part));
    if level == sys::GGML_LOG_LEVEL_WARN && !is_expected {
        tracing::info!(target: "llama.cpp", "{text}");
    } else {
        tracing::debug!(target: "llama.cpp", "{text}");
    }
}

/// Handles an error. If a call listens, it becomes part of the call's error; otherwise it is
/// logged.
pub(super) fn hear_error(text: &str) {
    if !hear(|heard| heard.errors.push(text.to_owned())) {
        tracing::error!(target: "llama.cpp", "{text}");
    }
}

/// Changes the lines heard on this thread. Returns false if no call listens.
fn hear(change: impl FnOnce(&mut Heard)) -> bool {
    let listens = HEARD.try_with(|heard| match heard.try_borrow_mut().as_deref_mut() {
        Ok(Some(heard)) => {
            change(heard);
            true
        }
        _ => false,
    });
    listens.unwrap_or(false)
}

/// Runs `f` and returns its result with the lines that llama.cpp logged on this thread meanwhile.
pub(crate) fn listen<T>(f: impl FnOnce() -> T) -> (T, Heard) {
    HEARD.set(Some(Heard::default()));
    let result = f();
    (result, HEARD.take().unwrap_or_default())
}

/// As [`listen`], and passes each line to `tell` as it comes. `tell` must not panic.
pub(crate) fn listen_with<T>(tell: fn(&str), f: impl FnOnce() -> T) -> (T, Heard) {
    TOLD.set(Some(tell));
    let result = listen(f);
    TOLD.set(None);
    result
}

/// Passes the lines heard on this thread since [`listen`] began to `look`; `None` outside of it.
pub(crate) fn heard_so_far<T>(look: impl FnOnce(&[String]) -> T) -> Option<T> {
    HEARD.with_borrow(|heard| heard.as_ref().map(|heard| look(&heard.lines)))
}
