//! Loading a model.

use std::ffi::{CStr, CString, c_void};
use std::ptr;

use llama_cpp_sys_2 as sys;

use super::{Model, guard};

/// Parameters for loading a model.
pub(crate) struct ModelParams {
    /// Parameters from [`default_params`], with plain numbers changed.
    pub(crate) raw: sys::llama_model_params,
    /// Devices besides the CPU, by ggml's index; `None` for all.
    pub(crate) devices: Option<Vec<usize>>,
    /// Shares of the devices; if empty, llama.cpp divides by their memory.
    pub(crate) tensor_split: Vec<f32>,
    /// Patterns of tensor names, with the buffer type of matching tensors.
    pub(crate) overrides: Vec<(CString, BufferType)>,
}

/// Returns llama.cpp's default parameters for loading a model.
pub(crate) fn default_params() -> sys::llama_model_params {
    // SAFETY: returns plain numbers and null pointers.
    unsafe { sys::llama_model_default_params() }
}

/// A type of memory for tensors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferType(sys::ggml_backend_buffer_type_t);

/// Returns the buffer types of all devices, with their names.
pub(crate) fn buffer_types() -> Vec<(String, BufferType)> {
    let mut found = Vec::new();
    // SAFETY: ggml's devices are registered once and stay for the process; indices are below their
    // number, and the names are static NUL-terminated texts.
    unsafe {
        for index in 0..sys::ggml_backend_dev_count() {
            let buffer = sys::ggml_backend_dev_buffer_type(sys::ggml_backend_dev_get(index));
            if !buffer.is_null() {
                let name = CStr::from_ptr(sys::ggml_backend_buft_name(buffer));
                found.push((name.to_string_lossy().into_owned(), BufferType(buffer)));
            }
        }
    }
    found
}

/// Loads a model; `None` if llama.cpp refuses, which it logs. During the load, calls `on_progress`
/// on this thread with the loaded fraction, from 0 to 1. It must not panic.
pub(crate) fn load_model(
    path: &CStr,
    params: &ModelParams,
    mut on_progress: &mut dyn FnMut(f32),
) -> Option<Model> {
    let mut devices: Vec<sys::ggml_backend_dev_t> = Vec::new();
    for index in params.devices.iter().flatten() {
        // SAFETY: ggml refuses an index that is out of range by ending the process; these come from
        // its own list of devices.
        devices.push(unsafe { sys::ggml_backend_dev_get(*index) });
    }
    devices.push(ptr::null_mut());
    let overrides = params.overrides.iter();
    let overrides = overrides.map(|(pattern, buffer)| (pattern.as_ptr(), buffer.0));
    let overrides: Vec<_> = overrides
        .chain([(ptr::null(), ptr::null_mut())])
        .map(|(pattern, buft)| sys::llama_model_tensor_buft_override { pattern, buft })
        .collect();
    let mut shares = params.tensor_split.clone();
    // SAFETY: returns a plain number.
    shares.resize(unsafe { sys::llama_max_devices() }, 0.0);
    let mut raw = params.raw;
    if params.devices.is_some() {
        raw.devices = devices.as_mut_ptr();
    }
    if !params.tensor_split.is_empty() {
        raw.tensor_split = shares.as_ptr();
    }
    if !params.overrides.is_empty() {
        raw.tensor_buft_overrides = overrides.as_ptr();
    }
    raw.progress_callback = Some(progress);
    raw.progress_callback_user_data = ptr::from_mut(&mut on_progress).cast();
    // SAFETY: the lists end as llama.cpp expects and outlive the call, which copies what it keeps;
    // the callback takes what `progress` expects, and only this call calls it.
    unsafe { Model::new(guard::load_model(path.as_ptr(), &raw const raw)) }
}

/// Loads the vocabulary and the metadata of a model; `None` if llama.cpp refuses, which it logs.
pub(crate) fn load_vocabulary(path: &CStr) -> Option<Model> {
    let mut raw = default_params();
    raw.vocab_only = true;
    // SAFETY: the path ends with a NUL, and the parameters are llama.cpp's own.
    unsafe { Model::new(guard::load_model(path.as_ptr(), &raw const raw)) }
}

/// Passes the loaded fraction to the closure behind `on_progress`. Returns true to continue.
unsafe extern "C" fn progress(part: f32, on_progress: *mut c_void) -> bool {
    // SAFETY: `load_model` passes this pointer to its own variable, which outlives the load, and
    // nobody else uses it meanwhile.
    let on_progress = unsafe { &mut *on_progress.cast::<&mut dyn FnMut(f32)>() };
    on_progress(part);
    true
}
