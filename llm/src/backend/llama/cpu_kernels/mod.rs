//! Products of quantized matrices in main memory, computed by the kernels of this project inside
//! llama.cpp.
//!
//! ggml's CPU backend has a list of buffer types. Each lays out weights in its own way and computes
//! operations on them, on the backend's threads. `shim.cpp` adds one before the others. ggml then
//! asks Rust (`calls`) which matrices it supports, passes weights to pack while a model loads, and
//! has it compute products and the operations behind those of experts (`matmul.cpp`). Unsupported
//! operations go to the next buffer type, and so to llama.cpp's own kernels.
//!
//! The kernels also compute attention that is one operation in ggml (`attention`), if its queries
//! come from packed weights.
//!
//! The same feature includes weights and cells in huge pages (`new_pages`, `huge_pages`), and
//! zeroed cells that are not written (`zeroed`). `buffers.cpp` reports ggml's buffers.
//!
//! The list of buffer types belongs to the process. Each load chooses whether its model uses the
//! kernels ([`load`]), so two models can differ.

#![allow(unsafe_code)]

mod attention;
mod buffers;
mod calls;
mod check;
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

use super::model::PackCounts;
use crate::settings::CpuKernels;

pub(super) use attention::attends;
pub(super) use buffers::attach as attach_to_buffers;
pub(super) use graphmill_kernels::Kernels;
#[cfg(target_os = "linux")]
pub(super) use huge_pages::HugePages;
pub use measure::MeasuredMatmul;
pub(super) use measure::measure_matmul;
pub(super) use panics::PanicWatch;
#[cfg(target_os = "linux")]
pub(crate) use zeroed::unused_bytes;

/// Environment variable that turns the kernels off for all models of a process, or names the
/// instructions that they use.
const SWITCH: &str = "GRAPHMILL_CPU_KERNELS";

/// The kernels that the buffer type computes with, once it is attached.
static ATTACHED: OnceLock<Kernels> = OnceLock::new();

/// Returns the kernels that the environment asks for; by default the best ones.
fn chosen() -> Result<Option<Kernels>, String> {
    let name = env::var_os(SWITCH).unwrap_or_default();
    let name = name.to_string_lossy();
    match &*name {
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
                "`{SWITCH}` is `{name}`, expected `auto`, `off` or instructions of this processor: `{list}`"
            ))
        }
    }
}

/// Returns the kernels, if this processor has instructions for them and their results pass the
/// check. Must be called once, before the first model is loaded.
///
/// # Errors
/// If the environment asks for kernels that do not exist or are not available.
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

/// Returns the kernels if their check succeeded; otherwise logs why they are off.
fn approved(kernels: Kernels, check: Result<(), String>) -> Option<Kernels> {
    match check {
        Ok(()) => Some(kernels),
        Err(message) => {
            tracing::warn!("the CPU kernels are off: {message}");
            None
        }
    }
}

/// Returns the attached kernels if a model with this choice uses them.
pub(super) fn wanted(choice: CpuKernels, attached: Option<Kernels>) -> Option<Kernels> {
    attached.filter(|kernels| match choice {
        CpuKernels::Auto => kernels.beats_stock(),
        CpuKernels::On => true,
        CpuKernels::Off => false,
    })
}

/// Types of weights that have kernels.
const FORMATS: [(sys::ggml_type, Format); 14] = [
    (sys::GGML_TYPE_Q8_0, Format::Q8_0),
    (sys::GGML_TYPE_Q4_0, Format::Q4_0),
    (sys::GGML_TYPE_Q5_0, Format::Q5_0),
    (sys::GGML_TYPE_Q5_1, Format::Q5_1),
    (sys::GGML_TYPE_MXFP4, Format::MxFp4),
    (sys::GGML_TYPE_IQ4_NL, Format::Iq4Nl),
    (sys::GGML_TYPE_IQ4_XS, Format::Iq4Xs),
    (sys::GGML_TYPE_Q2_K, Format::Q2K),
    (sys::GGML_TYPE_Q3_K, Format::Q3K),
    (sys::GGML_TYPE_Q4_K, Format::Q4K),
    (sys::GGML_TYPE_Q5_K, Format::Q5K),
    (sys::GGML_TYPE_Q6_K, Format::Q6K),
    (sys::GGML_TYPE_F16, Format::F16),
    (sys::GGML_TYPE_BF16, Format::Bf16),
];

/// The form of a matrix of weights, or of the matrices of several experts, as ggml describes it.
#[derive(Clone, Copy, Debug)]
struct Matrix {
    ggml_type: sys::ggml_type,
    columns: usize,
    rows: usize,
    /// Number of experts; 1 for a plain matrix.
    experts: usize,
}

impl Matrix {
    /// Returns the name of its type, such as `Q8_0`.
    fn type_name(self) -> String {
        // SAFETY: ggml has a static NUL-terminated name for each of its types, and this is one.
        let name = unsafe { CStr::from_ptr(sys::ggml_type_name(self.ggml_type)) };
        name.to_string_lossy().to_uppercase()
    }

    fn format(self) -> Option<Format> {
        let known = FORMATS.iter().find(|known| known.0 == self.ggml_type);
        known.map(|(_, format)| *format)
    }

    /// Returns the size of the packed matrix in bytes; `None` if the kernels do not support it.
    fn packed_bytes(self) -> Option<usize> {
        let kernels = ATTACHED.get()?;
        let of_one = kernels.packed_bytes(self.format()?, self.rows, self.columns)?;
        of_one.checked_mul(self.experts).filter(|bytes| *bytes > 0)
    }

    /// Returns the size of a quantized activation for this matrix, in bytes.
    fn activation_bytes(self) -> usize {
        let bytes =
            |kernels: &Kernels| Some(kernels.activation_bytes(self.format()?, self.columns));
        ATTACHED.get().and_then(bytes).unwrap_or(0)
    }
}

/// Runs `load`. If `wanted`, the weights that it loads are packed for the kernels, in huge pages if
/// `huge_pages` says so. Also returns the matrices that were packed.
pub(super) fn load<T>(wanted: bool, huge_pages: bool, load: impl FnOnce() -> T) -> (T, PackCounts) {
    if wanted {
        packed::begin(huge_pages);
    }
    let loaded = load();
    (loaded, packed::end())
}
