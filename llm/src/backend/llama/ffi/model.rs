//! A loaded model: its owner, and its properties.

use std::ffi::{CStr, CString};
use std::num::NonZero;
use std::ptr::{self, NonNull};
use std::str::FromStr;

use llama_cpp_sys_2 as sys;

use crate::model::Head;

/// A model that llama.cpp has loaded. Contexts, adapters and projectors borrow or share it, so it is
/// freed after them.
#[derive(Debug)]
pub(crate) struct Model {
    raw: NonNull<sys::llama_model>,
}

// SAFETY: llama.cpp ties a model to no thread.
unsafe impl Send for Model {}
// SAFETY: the functions here only read the model. Once it is loaded it changes only where a context
// or an adapter is created on it or an adapter is freed, under the lock of its layout. Contexts hold
// that, too, while llama.cpp reads what has changed.
unsafe impl Sync for Model {}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: the model is alive, and whatever was created on it is not: it had borrowed the
        // model or shared it.
        unsafe { sys::llama_model_free(self.raw.as_ptr()) }
    }
}

impl Model {
    /// Takes ownership of a model; `None` if the pointer is null.
    ///
    /// # Safety
    /// llama.cpp has just loaded the model, and nothing else frees it.
    pub(super) unsafe fn new(raw: *mut sys::llama_model) -> Option<Self> {
        NonNull::new(raw).map(|raw| Self { raw })
    }

    /// Returns llama.cpp's pointer, which is valid as long as the model.
    pub(super) fn as_ptr(&self) -> *mut sys::llama_model {
        self.raw.as_ptr()
    }

    /// Returns the names of the classes of its head.
    pub(crate) fn class_labels(&self) -> Vec<String> {
        // SAFETY: the model is alive.
        let count = unsafe { sys::llama_model_n_cls_out(self.as_ptr()) };
        let label = |number: u32| {
            // SAFETY: the model is alive.
            let label = unsafe { sys::llama_model_cls_label(self.as_ptr(), number) };
            if label.is_null() {
                return Head::label(number as usize);
            }
            // SAFETY: the label is a string of the model, which ends with a NUL.
            let label = unsafe { CStr::from_ptr(label) };
            label.to_string_lossy().into_owned()
        };
        (0..count).map(label).collect()
    }

    /// Returns a value of the file's metadata as text; `None` for lists and for invalid UTF-8.
    pub(crate) fn metadata(&self, key: &str) -> Option<String> {
        let key = CString::new(key).ok()?;
        let mut text = vec![0_u8; 256];
        loop {
            // SAFETY: the model is alive; at most as many bytes are written as there is room for.
            let length = unsafe {
                sys::llama_model_meta_val_str(
                    self.as_ptr(),
                    key.as_ptr(),
                    text.as_mut_ptr().cast(),
                    text.len(),
                )
            };
            // Size of the whole value, even if there was no room for it and a NUL.
            let length = usize::try_from(length).ok()?;
            if length < text.len() {
                text.truncate(length);
                return String::from_utf8(text).ok();
            }
            text.resize(length + 1, 0);
        }
    }

    /// Returns a number of the metadata whose key begins with the architecture and ends with `key`;
    /// `None` if the file has none.
    pub(crate) fn number<T: FromStr>(&self, key: &str) -> Option<T> {
        let text = self.metadata(&format!("{}.{key}", self.architecture()))?;
        text.parse().ok()
    }

    /// Returns the name of the model's architecture, as in its file; empty if it has none.
    pub(crate) fn architecture(&self) -> String {
        self.metadata("general.architecture").unwrap_or_default()
    }

    /// The chat template of the file.
    pub(crate) fn chat_template(&self) -> Option<&str> {
        // SAFETY: the model is alive; without a name, llama.cpp returns a NUL-terminated text that
        // lives as long, or null.
        let template = unsafe {
            let template = sys::llama_model_chat_template(self.as_ptr(), ptr::null());
            (!template.is_null()).then(|| CStr::from_ptr(template))
        };
        template?.to_str().ok()
    }

    /// Returns the type of most weights as text, such as `Q8_0` or `Q4_K - Medium`.
    pub(crate) fn quantization(&self) -> String {
        let mut text = [0u8; 128];
        // SAFETY: the model is alive; at most as many bytes are written as there is room for, with
        // a NUL at the end.
        unsafe {
            sys::llama_model_desc(self.as_ptr(), text.as_mut_ptr().cast(), text.len());
        }
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        // The description is architecture, size and type.
        let words = text.to_string_lossy();
        words.splitn(3, ' ').nth(2).unwrap_or_default().to_owned()
    }

    /// Size of a cell's extension in bytes: two more positions and the token, if positions can be
    /// those of an image. `None` for models with one number per position.
    pub(crate) fn cell_extension(&self) -> Option<NonZero<usize>> {
        // SAFETY: the model is alive.
        match unsafe { sys::llama_model_rope_type(self.as_ptr()) } {
            sys::LLAMA_ROPE_TYPE_MROPE | sys::LLAMA_ROPE_TYPE_IMROPE => NonZero::new(12),
            _ => None,
        }
    }

    /// Returns true if the model has both an encoder and a decoder.
    pub(crate) fn encodes_and_decodes(&self) -> bool {
        // SAFETY: the model is alive.
        unsafe {
            sys::llama_model_has_encoder(self.as_ptr())
                && sys::llama_model_has_decoder(self.as_ptr())
        }
    }

    /// Returns true if the model has recurrent layers, alone or with others.
    pub(crate) fn has_states(&self) -> bool {
        // SAFETY: the model is alive.
        self.is_recurrent() || unsafe { sys::llama_model_is_hybrid(self.as_ptr()) }
    }

    /// Returns true if all layers are recurrent.
    pub(crate) fn is_recurrent(&self) -> bool {
        // SAFETY: the model is alive.
        unsafe { sys::llama_model_is_recurrent(self.as_ptr()) }
    }

    /// Returns the size of all tensors, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        // SAFETY: the model is alive.
        unsafe { sys::llama_model_size(self.as_ptr()) }
    }

    /// Counts the parameters of all tensors.
    pub(crate) fn parameters(&self) -> u64 {
        // SAFETY: the model is alive.
        unsafe { sys::llama_model_n_params(self.as_ptr()) }
    }
}

/// Functions that return a number of a model; 0 if llama.cpp returns a negative one.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident: $call:ident;)*) => {
        impl Model {
            $(
                $(#[$doc])*
                pub(crate) fn $name(&self) -> u32 {
                    // SAFETY: the model is alive.
                    u32::try_from(unsafe { sys::$call(self.as_ptr()) }).unwrap_or(0)
                }
            )*
        }
    };
}

numbers! {
    /// Number of layers, without those that draft.
    n_layer: llama_model_n_layer;
    /// Number of MTP layers, which draft from the results of the others.
    mtp_layers: llama_model_n_layer_nextn;
    /// Number of query heads in the attention of a layer.
    n_head: llama_model_n_head;
    /// Number of heads of keys and values in a layer.
    n_head_kv: llama_model_n_head_kv;
    /// Width of a hidden state.
    n_embd: llama_model_n_embd;
    /// Width of an embedding that replaces a token.
    input_width: llama_model_n_embd_inp;
    /// Width of an embedding that the model returns.
    output_width: llama_model_n_embd_out;
    /// Context that the model was trained for, in tokens.
    trained_context: llama_model_n_ctx_train;
    /// Number of positions that attention looks back; 0 if it sees all.
    attention_window: llama_model_n_swa;
}
