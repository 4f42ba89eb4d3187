//! Products of quantized matrices in main memory by the kernels of this project, inside of llama.cpp.
//!
//! ggml's CPU backend has a list of buffer types that lay weights out in their own way and then compute what is done with them, on
//! the backend's threads. `shim.cpp` puts one more before the others; ggml asks it in Rust (`calls`) what it takes, gives it weights
//! to pack while a model loads, and has it compute products. What it does not take goes on to the next buffer type, and so to
//! llama.cpp's own kernels.
//!
//! The list is the process's. Which model wants the kernels is said beside the load ([`load`]), so that two models can differ.

#![allow(unsafe_code)]

mod calls;
mod check;
mod packed;

use std::env;
use std::ffi::CStr;
use std::sync::OnceLock;

use graphmill_kernels::{Format, Kernels};
use llama_cpp_sys_2 as sys;

use crate::spec::CpuKernels;

pub(super) use calls::panics;
pub(super) use packed::Packed;

/// Turns the kernels off for all models of a process, whatever they say.
const SWITCH: &str = "GRAPHMILL_CPU_KERNELS";

/// Those that the buffer type computes with, once it is attached.
static ATTACHED: OnceLock<Kernels> = OnceLock::new();

/// The kernels, if this processor has instructions for them and what they compute is right. To be called once, before the first model
/// is loaded.
pub(super) fn attach() -> Option<Kernels> {
    match env::var(SWITCH).as_deref() {
        Ok("off") => return None,
        Ok("auto" | "") | Err(env::VarError::NotPresent) => {}
        _ => tracing::warn!("`{SWITCH}` is neither `auto` nor `off`, and has no effect"),
    }
    let detected = Kernels::detect()?;
    let kernels = *ATTACHED.get_or_init(|| detected);
    if !calls::attach() {
        tracing::warn!(
            "the CPU kernels are off: llama.cpp has loaded a model before they could be attached"
        );
        return None;
    }
    match check::all() {
        Ok(()) => Some(kernels),
        Err(message) => {
            tracing::warn!("the CPU kernels are off: {message}");
            None
        }
    }
}

/// Which of the kernels that are attached a model uses that says this.
pub(super) fn wanted(choice: CpuKernels, attached: Option<Kernels>) -> Option<Kernels> {
    attached.filter(|kernels| match choice {
        CpuKernels::Auto => kernels.beats_stock(),
        CpuKernels::On => true,
        CpuKernels::Off => false,
    })
}

/// A matrix of weights as ggml describes it.
#[derive(Clone, Copy, Debug)]
struct Matrix {
    ggml_type: sys::ggml_type,
    columns: usize,
    rows: usize,
}

impl Matrix {
    /// The name of its type, as in `Q8_0`.
    fn type_name(self) -> String {
        // SAFETY: ggml has a static NUL-terminated name for each of its types, and this is one.
        let name = unsafe { CStr::from_ptr(sys::ggml_type_name(self.ggml_type)) };
        name.to_string_lossy().to_uppercase()
    }

    fn format(self) -> Option<Format> {
        match self.ggml_type {
            sys::GGML_TYPE_Q8_0 => Some(Format::Q8_0),
            sys::GGML_TYPE_Q4_0 => Some(Format::Q4_0),
            sys::GGML_TYPE_Q4_K => Some(Format::Q4K),
            sys::GGML_TYPE_Q5_K => Some(Format::Q5K),
            sys::GGML_TYPE_Q6_K => Some(Format::Q6K),
            _ => None,
        }
    }

    /// Bytes of the matrix as the kernels have it; `None` if they leave it to llama.cpp.
    fn packed_bytes(self) -> Option<usize> {
        ATTACHED
            .get()?
            .packed_bytes(self.format()?, self.rows, self.columns)
    }

    /// Bytes of an activation that the matrix is multiplied by.
    fn activation_bytes(self) -> usize {
        let bytes =
            |kernels: &Kernels| Some(kernels.activation_bytes(self.format()?, self.columns));
        ATTACHED.get().and_then(bytes).unwrap_or(0)
    }
}

/// Loads a model, with its weights packed for the kernels where these are `wanted` and take them. Tells what they have taken.
pub(super) fn load<T>(wanted: bool, load: impl FnOnce() -> T) -> (T, Packed) {
    if wanted {
        packed::begin();
    }
    let loaded = load();
    (loaded, packed::end())
}
