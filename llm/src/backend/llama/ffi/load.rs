//! Loading a model.

use std::ffi::{CStr, CString, c_void};
use std::ptr;

use llama_cpp_sys_2 as sys;

use super::{Model, guard};

/// Parameters for loading a model.
#[derive(Debug)]
pub(crate) struct ModelParams {
    /// Devices besides the CPU, by ggml's index; `None` for all.
    pub(crate) devices: Option<Vec<usize>>,
    /// Number of layers on these devices; `None` for all.
    pub(crate) gpu_layers: Option<u32>,
    pub(crate) split_mode: sys::llama_split_mode,
    /// The device of tensors that are not split, as an index into `devices`.
    pub(crate) main_gpu: u32,
    /// Shares of the devices; if empty, llama.cpp divides by their memory.
    pub(crate) tensor_split: Vec<f32>,
    /// Patterns of tensor names, with the buffer type of matching tensors.
    pub(crate) overrides: Vec<(CString, BufferType)>,
    pub(crate) load_mode: sys::llama_load_mode,
    /// Lets weights be copied into layouts for the processor.
    pub(crate) extra_buffers: bool,
    /// Puts weights in main memory into pages that a GPU reads faster, instead of such layouts.
    pub(crate) pinned: bool,
    /// Loads the MTP layers, if the model has any.
    pub(crate) mtp: bool,
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
    let mut overrides: Vec<_> = params
        .overrides
        .iter()
        .map(|(pattern, buffer)| sys::llama_model_tensor_buft_override {
            pattern: pattern.as_ptr(),
            buft: buffer.0,
        })
        .collect();
    overrides.push(sys::llama_model_tensor_buft_override {
        pattern: ptr::null(),
        buft: ptr::null_mut(),
    });
    // SAFETY: returns a plain number.
    let mut shares = vec![0.0; unsafe { sys::llama_max_devices() }];
    for (share, wanted) in shares.iter_mut().zip(&params.tensor_split) {
        *share = *wanted;
    }
    // SAFETY: returns plain numbers and null pointers.
    let mut raw = unsafe { sys::llama_model_default_params() };
    if params.devices.is_some() {
        raw.devices = devices.as_mut_ptr();
    }
    raw.n_gpu_layers = params.gpu_layers.map_or(-1, |layers| layers as i32);
    raw.split_mode = params.split_mode;
    raw.main_gpu = params.main_gpu as i32;
    if !params.tensor_split.is_empty() {
        raw.tensor_split = shares.as_ptr();
    }
    if !params.overrides.is_empty() {
        raw.tensor_buft_overrides = overrides.as_ptr();
    }
    raw.load_mode = params.load_mode;
    raw.use_extra_bufts = params.extra_buffers;
    raw.no_host = !params.pinned;
    raw.load_mtp = params.mtp;
    raw.progress_callback = Some(progress);
    raw.progress_callback_user_data = ptr::from_mut(&mut on_progress).cast();
    // SAFETY: the lists end as llama.cpp expects and outlive the call, which copies what it keeps;
    // the callback takes what `progress` expects, and only this call calls it.
    unsafe { Model::new(guard::load_model(path.as_ptr(), &raw const raw)) }
}

/// Loads the vocabulary and the metadata of a model; `None` if llama.cpp refuses, which it logs.
pub(crate) fn load_vocabulary(path: &CStr) -> Option<Model> {
    // SAFETY: returns plain numbers and null pointers.
    let mut raw = unsafe { sys::llama_model_default_params() };
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
