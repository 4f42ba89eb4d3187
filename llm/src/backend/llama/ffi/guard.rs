//! Calls of llama.cpp that catch C++ exceptions, because Rust cannot: `guard.cpp` makes them. The
//! text of an exception is treated as an error of llama.cpp. A failed assertion is treated the same
//! way while a model, a context or an adapter is loaded or a text is tokenized. Elsewhere ggml ends
//! the process, with one line about the cause instead of a debugger.

use std::ffi::{CStr, c_char};
use std::fs;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use llama_cpp_sys_2 as sys;

use super::log;
use crate::protocol::Token;

unsafe extern "C" {
    fn graphmill_guard_attach();
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

// These call llama.cpp's functions of the same name, and return null or `failed` after an exception.
unsafe extern "C" {
    /// The path must end with a NUL, and `params` be as llama.cpp expects them.
    #[link_name = "graphmill_load_model"]
    pub(super) fn load_model(
        path: *const c_char,
        params: *const sys::llama_model_params,
    ) -> *mut sys::llama_model;
    /// The model must be alive.
    #[link_name = "graphmill_new_context"]
    pub(super) fn new_context(
        model: *mut sys::llama_model,
        params: *const sys::llama_context_params,
    ) -> *mut sys::llama_context;
    /// The model must be alive, and nobody else may change it meanwhile.
    #[link_name = "graphmill_load_adapter"]
    pub(super) fn load_adapter(
        model: *mut sys::llama_model,
        path: *const c_char,
    ) -> *mut sys::llama_adapter_lora;
    /// The context must be alive and not shared, and the batch's arrays as long as it says.
    #[link_name = "graphmill_decode"]
    pub(super) fn decode(
        context: *mut sys::llama_context,
        batch: *const sys::llama_batch,
        failed: i32,
    ) -> i32;
    /// As [`decode`]; the batch has no more entries than the context computes at once.
    #[link_name = "graphmill_encode"]
    pub(super) fn encode(
        context: *mut sys::llama_context,
        batch: *const sys::llama_batch,
        failed: i32,
    ) -> i32;
}

/// Status of a call whose exception was caught. llama.cpp itself never returns it.
pub(super) const CAUGHT: i32 = i32::MIN + 1;

/// Function that names the loaded models, for the line about the end of the process.
static MODELS: OnceLock<fn() -> Vec<String>> = OnceLock::new();

/// Installs the handlers of failed assertions, which also log the loaded models. Must be called
/// once, before anything is loaded.
pub(crate) fn attach(models: fn() -> Vec<String>) {
    MODELS.get_or_init(|| models);
    // SAFETY: called once, before anything else uses llama.cpp; the handlers are plain functions
    // that live as long as the program.
    unsafe { graphmill_guard_attach() }
}

/// Calls llama.cpp's `llama_tokenize`. Returns the number of tokens written, or the negated
/// number of tokens if there is too little room. `None` after an exception, and if the number of
/// tokens overflows.
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

/// Receives the text of a caught exception, on the thread that made the call.
#[unsafe(no_mangle)]
unsafe extern "C" fn graphmill_caught(what: *const c_char) {
    // SAFETY: `guard.cpp` passes a NUL-terminated text that stays valid for the duration of this
    // call.
    let text = unsafe { CStr::from_ptr(what) }.to_string_lossy();
    log::hear_error(text.trim());
}

/// Reports that the process is about to end. The log may never be written, so this line goes
/// straight to standard error, unless nobody reads that.
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

/// Maximum size of the line in bytes; a pipe that is ready takes as much at once.
const MAX_BYTES: usize = 2_048;
/// Maximum time that the line waits for a reader, in milliseconds.
const PATIENCE_MS: i32 = 200;
