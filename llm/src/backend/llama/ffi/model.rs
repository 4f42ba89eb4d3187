//! Loading a model with parameters that the binding does not offer, and the pointer inside of a
//! loaded one.

use std::ffi::{CStr, CString, c_void};
use std::mem;
use std::num::NonZero;
use std::ptr::{self, NonNull};

use llama_cpp_2::model::LlamaModel;
use llama_cpp_sys_2 as sys;

use super::guard;

/// The binding's model is a transparent wrapper around llama.cpp's pointer, in the version that is
/// pinned.
const _: () = assert!(size_of::<LlamaModel>() == size_of::<NonNull<sys::llama_model>>());

/// Positions after which a token no longer sees another one; 0 if it sees all.
pub(crate) fn attention_window(model: &LlamaModel) -> u32 {
    // SAFETY: the model is alive.
    let window = unsafe { sys::llama_model_n_swa(as_ptr(model).as_ptr()) };
    u32::try_from(window).unwrap_or(0)
}

/// Bytes that llama.cpp keeps of a cell beside its position: two more positions and the token, where
/// positions can be those of an image. None for models that have one number for a position.
pub(crate) fn cell_extension(model: &LlamaModel) -> Option<NonZero<usize>> {
    // SAFETY: the model is alive.
    match unsafe { sys::llama_model_rope_type(as_ptr(model).as_ptr()) } {
        sys::LLAMA_ROPE_TYPE_MROPE | sys::LLAMA_ROPE_TYPE_IMROPE => NonZero::new(12),
        _ => None,
    }
}

/// Numbers of an embedding that the model takes in the place of a token.
pub(super) fn input_width(model: &LlamaModel) -> usize {
    // SAFETY: the model is alive.
    let width = unsafe { sys::llama_model_n_embd_inp(as_ptr(model).as_ptr()) };
    usize::try_from(width).unwrap_or(0)
}

/// Whether the model reads with one network and writes with another.
pub(crate) fn encodes_and_decodes(model: &LlamaModel) -> bool {
    let model = as_ptr(model).as_ptr();
    // SAFETY: the model is alive.
    unsafe { sys::llama_model_has_encoder(model) && sys::llama_model_has_decoder(model) }
}

/// The kind of the model's vocabulary. The binding's own list of kinds ends before that of BERT.
pub(crate) fn vocabulary_kind(model: &LlamaModel) -> sys::llama_vocab_type {
    // SAFETY: the model is alive, and its vocabulary lives as long.
    unsafe { sys::llama_vocab_type(sys::llama_model_get_vocab(as_ptr(model).as_ptr())) }
}

/// The tokens that mark what is before a gap, after it, and in it; negative where there are none.
pub(crate) fn gap_tokens(model: &LlamaModel) -> [sys::llama_token; 3] {
    // SAFETY: the model is alive, and its vocabulary lives as long.
    unsafe {
        let vocab = sys::llama_model_get_vocab(as_ptr(model).as_ptr());
        [
            sys::llama_vocab_fim_pre(vocab),
            sys::llama_vocab_fim_suf(vocab),
            sys::llama_vocab_fim_mid(vocab),
        ]
    }
}

/// How many layers a model has that draft from what the others compute.
pub(crate) fn mtp_layers(model: &LlamaModel) -> u32 {
    // SAFETY: the model is alive.
    let layers = unsafe { sys::llama_model_n_layer_nextn(as_ptr(model).as_ptr()) };
    u32::try_from(layers).unwrap_or(0)
}

/// llama.cpp's model inside of the binding's.
pub(super) fn as_ptr(model: &LlamaModel) -> NonNull<sys::llama_model> {
    // SAFETY: `LlamaModel` is a transparent wrapper around this pointer, which is never null.
    unsafe { *ptr::from_ref(model).cast::<NonNull<sys::llama_model>>() }
}

/// How a model is loaded.
#[derive(Debug)]
pub(crate) struct ModelParams {
    /// Devices besides the CPU, by ggml's index; `None` for all.
    pub(crate) devices: Option<Vec<usize>>,
    /// Layers on these devices; `None` for all.
    pub(crate) gpu_layers: Option<u32>,
    pub(crate) split_mode: sys::llama_split_mode,
    /// Index into the devices.
    pub(crate) main_gpu: u32,
    /// Shares of the devices; empty for what fits their memory.
    pub(crate) tensor_split: Vec<f32>,
    /// Patterns of tensor names, and where such tensors go.
    pub(crate) overrides: Vec<(CString, BufferType)>,
    pub(crate) load_mode: sys::llama_load_mode,
    /// Whether weights may be copied into layouts for the processor.
    pub(crate) extra_buffers: bool,
    /// Whether weights in main memory go to pages that a GPU reads faster, rather than into such
    /// layouts.
    pub(crate) pinned: bool,
    /// Whether MTP layers are loaded, where there are any.
    pub(crate) mtp: bool,
}

/// A kind of memory that tensors can be in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferType(sys::ggml_backend_buffer_type_t);

/// The kinds of memory of all devices, by name.
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

/// Loads a model; `None` if llama.cpp refuses, which it logs. Calls `on_progress` now and then
/// meanwhile, on this thread, with the part that is loaded, from 0 to 1; it must not panic.
pub(crate) fn load_model(
    path: &CStr,
    params: &ModelParams,
    mut on_progress: &mut dyn FnMut(f32),
) -> Option<LlamaModel> {
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
    let model = NonNull::new(unsafe { guard::load_model(path, &raw) })?;
    // SAFETY: as in `as_ptr`; the wrapper owns the model from here on.
    Some(unsafe { mem::transmute::<NonNull<sys::llama_model>, LlamaModel>(model) })
}

/// Tells the closure behind `on_progress` how far the load is. Says that it should go on.
unsafe extern "C" fn progress(part: f32, on_progress: *mut c_void) -> bool {
    // SAFETY: `load_model` passes this pointer to its own variable, which outlives the load, and
    // nobody else uses it meanwhile.
    let on_progress = unsafe { &mut *on_progress.cast::<&mut dyn FnMut(f32)>() };
    on_progress(part);
    true
}

/// The type of most weights in words, such as `Q8_0` or `Q4_K - Medium`.
pub(crate) fn quantization(model: &LlamaModel) -> String {
    let mut text = [0u8; 128];
    // SAFETY: the model is alive; at most as many bytes are written as there is room for, with a
    // NUL at the end.
    unsafe {
        sys::llama_model_desc(as_ptr(model).as_ptr(), text.as_mut_ptr().cast(), text.len());
    }
    let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
    // The description is architecture, size and type.
    let words = text.to_string_lossy();
    words.splitn(3, ' ').nth(2).unwrap_or_default().to_owned()
}
