//! Matmuls of quantized or 16-bit weights and activations on CPUs.
//!
//! Weights are packed once, when a model is loaded, into panels of [`Kernels::panel_rows`] rows in
//! the order in which the kernels read them. Activations are quantized to 8 bits in blocks, each
//! with a scale of its own. A matmul multiplies whole blocks as integers and adds the scaled sums
//! of blocks in the order of the blocks. So an element of the result depends only on its row of
//! weights and its activation: it is bit-identical whatever else is in the matmul, with any number
//! of threads and any instructions. Weights of 16-bit floating point are multiplied by unquantized
//! activations, and the products are added in the order of the columns.
//!
//! The crate contains only arithmetic: no models, no threads, no llama.cpp.
//!
//! ```
//! use graphmill_kernels::{Format, Kernels, Matmul};
//!
//! let (rows, cols) = (2, 32);
//! // Two rows of Q8_0: a scale of 1.0 (as f16), then 32 weights of 1.
//! let row: Vec<u8> = [0x00, 0x3c].into_iter().chain([1; 32]).collect();
//! for kernels in Kernels::all() {
//!     let mut panels = vec![0; kernels.packed_bytes(Format::Q8_0, rows, cols).unwrap()];
//!     kernels.pack(Format::Q8_0, cols, &[row.clone(), row.clone()].concat(), &mut panels);
//!     let mut activations = vec![0; kernels.activation_bytes(Format::Q8_0, cols)];
//!     kernels.quantize(Format::Q8_0, cols, &[0.5; 32], &mut activations);
//!     let mut out = [0.0; 2];
//!     let matmul = Matmul { format: Format::Q8_0, rows, cols, panels: &panels, tokens: 1, activations: &activations };
//!     kernels.multiply_all(&matmul, &mut out, 1);
//!     assert!((out[0] - 16.0).abs() < 1e-3);
//! }
//! ```
// Vector instructions read and write through pointers, and the threads of a matmul write
// interleaved parts of one matrix.
#![allow(unsafe_code)]

mod attend;
mod data;
mod gate;
mod kernels;
mod mixture;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use data::attention::{Attention, Numbers, Rows};
pub use data::format::Format;
pub use data::matmul::{Matmul, Output};
pub use data::mixture::{Experts, Gating, MixtureMatmul, Plan, Route};
pub use kernels::Kernels;
