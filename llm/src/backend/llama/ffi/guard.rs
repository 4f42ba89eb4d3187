//! Calls of llama.cpp that no C++ exception leaves, which Rust could not catch: `guard.cpp` makes
//! them. What an exception says is heard as an error of llama.cpp. A failed assertion is one too
//! where a model, a context or an adapter is loaded or a text is tokenized; elsewhere ggml ends the
//! process, and says why in one line instead of starting a debugger.

use std::ffi::{CStr, c_char};
use std::fs;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use llama_cpp_sys_2 as sys;

use super::log;
use crate::protocol::Token;

unsafe extern "C" {
    fn graphmill_guard_attach();
    fn graphmill_load_model(
        path: *const c_char,
        params: *const sys::llama_model_params,
    ) -> *mut sys::llama_model;
    fn graphmill_new_context(
        model: *mut sys::llama_model,
        params: *const sys::llama_context_params,
    ) -> *mut sys::llama_context;
    fn graphmill_load_adapter(
        model: *mut sys::llama_model,
        path: *const c_char,
    ) -> *mut sys::llama_adapter_lora;
    fn graphmill_decode(
        context: *mut sys::llama_context,
        batch: *const sys::llama_batch,
        failed: i32,
    ) -> i32;
    fn graphmill_encode(
        context: *mut sys::llama_context,
        batch: *const sys::llama_batch,
        failed: i32,
    ) -> i32;
    fn graphmill_tokenize(
        vocab: *const sys::llama_vocab,
        text: *const c_char,
        length: i32,
        tokens: *mut sys::llama_token,
        room: i32,
        add_special: bool,
        parse_special: bool,
        failed: i32,
    ) -> i32;
}

/// What a call returns whose exception was caught; llama.cpp returns no such number.
pub(super) const CAUGHT: i32 = i32::MIN + 1;

/// Says which models are loaded.
static MODELS: OnceLock<fn() -> Vec<String>> = OnceLock::new();

/// From here on, this process hears of failed assertions, with the models that are loaded. To be
/// called once, before anything is loaded.
pub(crate) fn attach(models: fn() -> Vec<String>) {
    MODELS.get_or_init(|| models);
    // SAFETY: called once, before anything else uses llama.cpp; the handlers are plain functions
    // that live as long as the program.
    unsafe { graphmill_guard_attach() }
}

/// As llama.cpp's function of that name.
///
/// # Safety
/// The path and what `params` point to must be as llama.cpp expects them.
pub(super) unsafe fn load_model(
    path: &CStr,
    params: &sys::llama_model_params,
) -> *mut sys::llama_model {
    // SAFETY: the caller's promise.
    unsafe { graphmill_load_model(path.as_ptr(), params) }
}

/// As llama.cpp's function of that name.
///
/// # Safety
/// The model must be alive.
pub(super) unsafe fn new_context(
    model: *mut sys::llama_model,
    params: &sys::llama_context_params,
) -> *mut sys::llama_context {
    // SAFETY: the caller's promise.
    unsafe { graphmill_new_context(model, params) }
}

/// As llama.cpp's function of that name.
///
/// # Safety
/// The model must be alive, and nobody else may change it meanwhile.
pub(super) unsafe fn load_adapter(
    model: *mut sys::llama_model,
    path: &CStr,
) -> *mut sys::llama_adapter_lora {
    // SAFETY: the caller's promise.
    unsafe { graphmill_load_adapter(model, path.as_ptr()) }
}

/// As llama.cpp's function of that name; [`CAUGHT`] after an exception.
///
/// # Safety
/// The context must be alive and not shared, and the batch's arrays as long as it says.
pub(super) unsafe fn decode(context: *mut sys::llama_context, batch: &sys::llama_batch) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { graphmill_decode(context, batch, CAUGHT) }
}

/// As llama.cpp's function of that name; [`CAUGHT`] after an exception.
///
/// # Safety
/// As [`decode`]; the batch has no more entries than the context computes at once.
pub(super) unsafe fn encode(context: *mut sys::llama_context, batch: &sys::llama_batch) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { graphmill_encode(context, batch, CAUGHT) }
}

/// As llama.cpp's function of that name: the number of tokens written, or the negative number of
/// those that there is no room for. `None` after an exception, and for more tokens than it counts.
///
/// # Safety
/// The vocabulary must be alive.
pub(super) unsafe fn tokenize(
    vocab: *const sys::llama_vocab,
    text: &str,
    tokens: &mut [MaybeUninit<Token>],
    add_special: bool,
    parse_special: bool,
) -> Option<i32> {
    let length = i32::try_from(text.len()).ok()?;
    // SAFETY: the caller's promise; llama.cpp reads `length` bytes and writes no more tokens than
    // there is room for.
    let written = unsafe {
        graphmill_tokenize(
            vocab,
            text.as_ptr().cast(),
            length,
            tokens.as_mut_ptr().cast(),
            i32::try_from(tokens.len()).unwrap_or(i32::MAX),
            add_special,
            parse_special,
            CAUGHT,
        )
    };
    (written != CAUGHT && written != i32::MIN).then_some(written)
}

/// An exception was caught, on the thread that made the call.
#[unsafe(no_mangle)]
unsafe extern "C" fn graphmill_caught(what: *const c_char) {
    // SAFETY: `guard.cpp` passes a NUL-terminated text that stays valid for the duration of this
    // call.
    let text = unsafe { CStr::from_ptr(what) }.to_string_lossy();
    log::hear_error(text.trim());
}

/// The process is about to end. Whatever collects log lines may not come to write them any more, so
/// this one goes straight to the standard error output, unless nobody reads that.
#[unsafe(no_mangle)]
unsafe extern "C" fn graphmill_ends(why: *const c_char) {
    // SAFETY: as in `graphmill_caught`.
    let why = unsafe { CStr::from_ptr(why) }.to_string_lossy();
    let thread = fs::read_to_string("/proc/thread-self/comm").unwrap_or_default();
    let models = MODELS.get().map_or_else(Vec::new, |paths| paths());
    let on = match models.as_slice() {
        [] => String::new(),
        models => format!(", with {} loaded", models.join(", ")),
    };
    let mut line = format!(
        "error: llama.cpp ends the process: {} (on thread `{}`{on})",
        why.trim(),
        thread.trim()
    );
    line.truncate(line.floor_char_boundary(MAX_BYTES));
    line.push('\n');
    let mut ready = libc::pollfd {
        fd: libc::STDERR_FILENO,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one entry, and as many bytes as there are.
    unsafe {
        if libc::poll(&raw mut ready, 1, PATIENCE_MS) == 1 {
            let _written = libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len());
        }
    }
    tracing::error!("{}", line.trim_end());
}

/// A pipe that is ready takes as much at once.
const MAX_BYTES: usize = 2_048;
/// How long the last words wait for a reader.
const PATIENCE_MS: i32 = 200;
