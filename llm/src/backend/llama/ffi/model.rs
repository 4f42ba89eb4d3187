//! The pointer inside of a loaded model, for the calls that the binding does not wrap.

use std::ptr::{self, NonNull};

use llama_cpp_2::model::LlamaModel;
use llama_cpp_sys_2 as sys;

const _: () = assert!(size_of::<LlamaModel>() == size_of::<NonNull<sys::llama_model>>());

/// llama.cpp's model inside of the binding's.
pub(super) fn as_ptr(model: &LlamaModel) -> NonNull<sys::llama_model> {
    // SAFETY: `LlamaModel` is a transparent wrapper around this pointer, which is never null, in the pinned version of the binding.
    unsafe { *ptr::from_ref(model).cast::<NonNull<sys::llama_model>>() }
}
