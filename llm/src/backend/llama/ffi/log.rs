//! llama.cpp's log lines: they go to `tracing`, and to whoever listens while a call runs.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_void};

use llama_cpp_sys_2 as sys;

thread_local! {
    /// What llama.cpp logs on this thread while [`listen`] runs.
    static HEARD: RefCell<Option<Heard>> = const { RefCell::new(None) };
    /// Told of each line while [`listen_with`] runs.
    static TOLD: Cell<Option<fn(&str)>> = const { Cell::new(None) };
}

/// What llama.cpp logged.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) errors: Vec<String>,
    /// All other lines.
    pub(crate) lines: Vec<String>,
}

impl Heard {
    /// The errors in one line, if there are any.
    pub(crate) fn complaint(&self) -> Option<String> {
        (!self.errors.is_empty()).then(|| self.errors.join("; "))
    }
}

/// Sends llama.cpp's and ggml's log lines to `tracing`. Their information is our detail: it goes
/// out one level lower.
pub(crate) fn route_logs() {
    // SAFETY: the callback is a plain function that lives as long as the program, and it takes no
    // user data.
    unsafe {
        sys::llama_log_set(Some(log_line), std::ptr::null_mut());
        #[cfg(feature = "vision")]
        sys::mtmd_log_set(Some(log_line), std::ptr::null_mut());
    }
}

/// Parts of warnings about what is so by intent.
const EXPECTED: [&str; 1] = [
    // The cells of all sequences together are more than one of them has, whose length the engine
    // limits by itself.
    "possible training context overflow",
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

/// Takes in an error: one that is listened to becomes part of an error of ours, others are logged.
pub(super) fn hear_error(text: &str) {
    if !hear(|heard| heard.errors.push(text.to_owned())) {
        tracing::error!(target: "llama.cpp", "{text}");
    }
}

/// Changes what was heard on this thread; says whether anybody listens.
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

/// Runs `f` and returns with its result what llama.cpp logged meanwhile on this thread.
pub(crate) fn listen<T>(f: impl FnOnce() -> T) -> (T, Heard) {
    HEARD.set(Some(Heard::default()));
    let result = f();
    (result, HEARD.take().unwrap_or_default())
}

/// As [`listen`], and tells of each line as it comes. It must not panic.
pub(crate) fn listen_with<T>(tell: fn(&str), f: impl FnOnce() -> T) -> (T, Heard) {
    TOLD.set(Some(tell));
    let result = listen(f);
    TOLD.set(None);
    result
}

/// Shows `look` the lines that were heard on this thread since [`listen`] began; `None` outside of
/// it.
pub(crate) fn heard_so_far<T>(look: impl FnOnce(&[String]) -> T) -> Option<T> {
    HEARD.with_borrow(|heard| heard.as_ref().map(|heard| look(&heard.lines)))
}
