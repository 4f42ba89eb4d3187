//! LoRA adapters.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Mutex;

use llama_cpp_sys_2 as sys;

use super::Model;
use crate::lock::lock;

/// A LoRA adapter for a model, which it borrows.
pub(crate) struct LoadedAdapter<'a> {
    raw: NonNull<sys::llama_adapter_lora>,
    /// Lock that is held while the model changes.
    changing: &'a Mutex<()>,
    model: PhantomData<&'a Model>,
}

impl<'a> LoadedAdapter<'a> {
    /// Loads an adapter; `None` if llama.cpp refuses, which it logs. Only contexts that are created
    /// afterwards can use it. `changing` is the lock that protects everything created on the model.
    pub(crate) fn load(model: &'a Model, changing: &'a Mutex<()>, path: &CStr) -> Option<Self> {
        let model = model.as_ptr();
        let _changing = lock(changing);
        // SAFETY: the model is alive for 'a, and is changed under the lock only; the path ends with
        // a NUL.
        let raw = unsafe { super::guard::load_adapter(model, path.as_ptr()) };
        Some(Self {
            raw: NonNull::new(raw)?,
            changing,
            model: PhantomData,
        })
    }

    pub(super) fn as_ptr(&self) -> *mut sys::llama_adapter_lora {
        self.raw.as_ptr()
    }
}

impl Drop for LoadedAdapter<'_> {
    fn drop(&mut self) {
        let _changing = lock(self.changing);
        // SAFETY: the adapter is alive, and the context that used it is gone. The model is alive,
        // and changed under the lock only.
        unsafe { sys::llama_adapter_lora_free(self.raw.as_ptr()) }
    }
}
