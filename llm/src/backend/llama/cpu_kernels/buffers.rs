//! Buffers of ggml's CPU backend: `buffers.cpp` replaces some of ggml's calls for them with calls
//! to this module.

use std::ffi::c_void;

#[cfg(target_os = "linux")]
use super::zeroed;

unsafe extern "C" {
    fn graphmill_buffers_attach();
}

/// Attaches to the buffers of this process. Must be called once, before any is allocated.
pub(crate) fn attach() {
    // SAFETY: called once, before anything else uses ggml's type of buffers.
    unsafe { graphmill_buffers_attach() }
}

/// Makes a buffer read as zeros. Returns false if it did nothing.
///
/// # Safety
/// The memory must be private to the process, belong to no file, and nobody else may use it
/// meanwhile.
#[unsafe(no_mangle)]
unsafe extern "C" fn graphmill_buffer_clear(first: *mut c_void, bytes: usize) -> bool {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: the caller's promise.
        unsafe { zeroed::clear(first, bytes) }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (first, bytes);
        false
    }
}

/// Notes that a buffer is about to be freed.
#[unsafe(no_mangle)]
extern "C" fn graphmill_buffer_freed(first: *mut c_void) {
    #[cfg(target_os = "linux")]
    zeroed::freed(first);
    #[cfg(not(target_os = "linux"))]
    let _ = first;
}
