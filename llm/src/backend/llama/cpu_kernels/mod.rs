//! Products of quantized matrices in main memory by the kernels of this project, inside of
//! llama.cpp.
//!
//! ggml's CPU backend has a list of buffer types that lay weights out in their own way and then
//! compute what is done with them, on the backend's threads. `shim.cpp` puts one more before the
//! others; ggml asks it in Rust (`calls`) what it takes, gives it weights to pack while a model
//! loads, and has it compute products, and what comes behind those of experts (`matmul.cpp`). What
//! it does not take goes on to the next buffer type, and so to llama.cpp's own kernels.
//!
//! Attention that ggml computes by one operation goes to them too (`attention`), where queries come
//! from packed weights.
//!
//! What goes with them is here too, and behind the same feature: weights and cells in huge pages
//! (`new_pages`, `huge_pages`), and cells that are zeroed by forgetting them (`zeroed`).
//! `buffers.cpp` tells of ggml's buffers.
//!
//! The list is the process's. Which model wants the kernels is said beside the load ([`load`]), so
//! that two models can differ.

#![allow(unsafe_code)]

mod attention;
mod buffers;
mod calls;
mod check;
mod check_attention;
mod check_mixture;
#[cfg(target_os = "linux")]
mod huge_pages;
mod measure;
mod mixture;
mod new_pages;
mod packed;
mod panics;
mod tensors;
#[cfg(test)]
mod tests;
#[cfg(target_os = "linux")]
mod zeroed;

use std::env;
use std::ffi::CStr;
use std::sync::OnceLock;

use graphmill_kernels::Format;
use llama_cpp_sys_2 as sys;

use crate::spec::CpuKernels;

pub(super) use attention::attends;
pub(super) use buffers::attach as attach_to_buffers;
pub(super) use graphmill_kernels::Kernels;
#[cfg(target_os = "linux")]
pub(super) use huge_pages::HugePages;
pub(super) use measure::matmul_time;
pub use measure::{MatmulTime, MeasuredMatmul};
pub(super) use packed::Packed;
pub(super) use panics::Watch;
#[cfg(target_os = "linux")]
pub(crate) use zeroed::unused_bytes;

/// Turns the kernels off for all models of a process, whatever they say, or names the instructions
/// that they use.
const SWITCH: &str = "GRAPHMILL_CPU_KERNELS";

/// Those that the buffer type computes with, once it is attached.
static ATTACHED: OnceLock<Kernels> = OnceLock::new();

/// The kernels that the environment asks for: the best ones if it does not say.
fn chosen() -> Result<Option<Kernels>, String> {
    let name = match env::var(SWITCH) {
        Ok(name) => name,
        Err(env::VarError::NotPresent) => String::new(),
        Err(env::VarError::NotUnicode(name)) => name.to_string_lossy().into_owned(),
    };
    match name.as_str() {
        "" | "auto" => Ok(Kernels::detect()),
        "off" => Ok(None),
        _ => {
            let all = Kernels::all();
            if let Some(kernels) = all.iter().find(|kernels| kernels.name() == name) {
                return Ok(Some(*kernels));
            }
            let list: Vec<_> = all.iter().map(Kernels::name).collect();
            let list = list.join("`, `");
            Err(format!(
                "`{SWITCH}` is `{name}`, and has to be `auto`, `off`, or what this processor has: `{list}`"
            ))
        }
    }
}

/// The kernels, if this processor has instructions for them and what they compute is right. To be
/// called once, before the first model is loaded.
///
/// # Errors
/// If the environment asks for what there is not.
pub(super) fn attach() -> Result<Option<Kernels>, String> {
    let Some(chosen) = chosen()? else {
        return Ok(None);
    };
    let kernels = *ATTACHED.get_or_init(|| chosen);
    if !calls::attach() {
        tracing::warn!(
            "the CPU kernels are off: llama.cpp has loaded a model before they could be attached"
        );
        return Ok(None);
    }
    Ok(approved(kernels, check::all()))
}

/// The kernels, if what the check of them says is good; otherwise the log says why they are off.
fn approved(kernels: Kernels, check: Result<(), String>) -> Option<Kernels> {
    match check {
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

/// A matrix of weights as ggml describes it, or the matrices of several experts.
#[derive(Clone, Copy, Debug)]
struct Matrix {
    ggml_type: sys::ggml_type,
    columns: usize,
    rows: usize,
    /// 1 for a matrix that is none of experts.
    experts: usize,
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
            sys::GGML_TYPE_Q5_0 => Some(Format::Q5_0),
            sys::GGML_TYPE_Q5_1 => Some(Format::Q5_1),
            sys::GGML_TYPE_MXFP4 => Some(Format::MxFp4),
            sys::GGML_TYPE_IQ4_NL => Some(Format::Iq4Nl),
            sys::GGML_TYPE_IQ4_XS => Some(Format::Iq4Xs),
            sys::GGML_TYPE_Q2_K => Some(Format::Q2K),
            sys::GGML_TYPE_Q3_K => Some(Format::Q3K),
            sys::GGML_TYPE_Q4_K => Some(Format::Q4K),
            sys::GGML_TYPE_Q5_K => Some(Format::Q5K),
            sys::GGML_TYPE_Q6_K => Some(Format::Q6K),
            sys::GGML_TYPE_F16 => Some(Format::F16),
            sys::GGML_TYPE_BF16 => Some(Format::Bf16),
            _ => None,
        }
    }

    /// Bytes of the matrix as the kernels have it; `None` if they leave it to llama.cpp.
    fn packed_bytes(self) -> Option<usize> {
        let kernels = ATTACHED.get()?;
        let of_one = kernels.packed_bytes(self.format()?, self.rows, self.columns)?;
        of_one.checked_mul(self.experts).filter(|bytes| *bytes > 0)
    }

    /// Bytes of an activation that the matrix is multiplied by.
    fn activation_bytes(self) -> usize {
        let bytes =
            |kernels: &Kernels| Some(kernels.activation_bytes(self.format()?, self.columns));
        ATTACHED.get().and_then(bytes).unwrap_or(0)
    }
}

/// Loads a model, with its weights packed for the kernels where these are `wanted` and take them,
/// in `huge_pages` or not. Tells what they have taken.
pub(super) fn load<T>(wanted: bool, huge_pages: bool, load: impl FnOnce() -> T) -> (T, Packed) {
    if wanted {
        packed::begin(huge_pages);
    }
    let loaded = load();
    (loaded, packed::end())
}
