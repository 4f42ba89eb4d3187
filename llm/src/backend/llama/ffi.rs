//! The few calls into llama.cpp that its Rust binding does not wrap, and the only unsafe code of the project.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};

use llama_cpp_sys_2 as sys;

mod context;
mod model;

pub(super) use context::Context;

thread_local! {
    /// What llama.cpp complained about on this thread while [`collect_errors`] runs.
    static COMPLAINTS: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Sends llama.cpp's and ggml's log lines to `tracing`. Their information is our detail: it goes out one level lower.
pub(super) fn route_logs() {
    // SAFETY: the callback is a plain function that lives as long as the program, and it takes no user data.
    unsafe {
        sys::llama_log_set(Some(log_line), std::ptr::null_mut());
    }
}

/// Receives one piece of log text. May be called on any thread, and must not unwind.
unsafe extern "C" fn log_line(
    level: sys::ggml_log_level,
    text: *const c_char,
    _user_data: *mut c_void,
) {
    if text.is_null() {
        return;
    }
    // SAFETY: llama.cpp passes a NUL-terminated text that stays valid for the duration of this call.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let text = text.trim_end();
    if text.is_empty() || text == "." {
        return;
    }
    match level {
        sys::GGML_LOG_LEVEL_ERROR => {
            let collected = COMPLAINTS.try_with(|complaints| match complaints.try_borrow_mut() {
                Ok(mut complaints) => complaints
                    .as_mut()
                    .map(|lines| lines.push(text.to_owned()))
                    .is_some(),
                Err(_) => false,
            });
            if !collected.unwrap_or(false) {
                tracing::error!(target: "llama.cpp", "{text}");
            }
        }
        sys::GGML_LOG_LEVEL_WARN => tracing::info!(target: "llama.cpp", "{text}"),
        _ => tracing::debug!(target: "llama.cpp", "{text}"),
    }
}

/// Runs `f` and returns with its result the errors that llama.cpp logged meanwhile on this thread, if any.
pub(super) fn collect_errors<T>(f: impl FnOnce() -> T) -> (T, Option<String>) {
    COMPLAINTS.with_borrow_mut(|complaints| *complaints = Some(Vec::new()));
    let result = f();
    let lines = COMPLAINTS.with_borrow_mut(Option::take).unwrap_or_default();
    (result, (!lines.is_empty()).then(|| lines.join("; ")))
}

/// The instruction sets and libraries that this build of llama.cpp uses on this machine.
pub(super) fn system_info() -> String {
    // SAFETY: returns a pointer to a static NUL-terminated text; only one thread calls this, from the one-time initialisation.
    let text = unsafe { CStr::from_ptr(sys::llama_print_system_info()) };
    text.to_string_lossy().trim().to_owned()
}

/// llama.cpp's defaults for a context.
pub(super) fn context_params() -> sys::llama_context_params {
    // SAFETY: returns plain numbers and null pointers.
    unsafe { sys::llama_context_default_params() }
}
