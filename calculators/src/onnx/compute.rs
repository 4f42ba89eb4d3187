//! The interface of the libraries that compute models.

use graphmill_engine::Result;
use serde::Serialize;

use crate::tensor::{Tensor, TensorInfo};

/// Maximum size of a tensor inside of a model, in bytes. Models for CPUs need less, and a server
/// can run out of memory with more.
pub(super) const MAX_TENSOR_BYTES: usize = 4 << 30;

/// A model that is ready to run.
#[derive(Serialize)]
pub(super) struct LoadedModel {
    #[serde(skip)]
    pub(super) computer: Box<dyn Compute>,
    pub(super) inputs: Vec<TensorInfo>,
    pub(super) outputs: Vec<TensorInfo>,
    /// Names of each input's dimensions. Those with the same name have the same length.
    #[serde(skip)]
    pub(super) dimensions: Vec<Vec<String>>,
}

/// The computation of one model. Many threads call it at the same time.
pub(super) trait Compute: Send + Sync {
    /// Computes all outputs from a tensor of each input, which has the input's datatype and shape.
    /// May panic.
    fn run(&self, inputs: &[(&TensorInfo, &Tensor)], outputs: &[TensorInfo])
    -> Result<Vec<Tensor>>;
}

/// Returns a name for a dimension that has none in the model.
pub(super) fn unnamed(input: usize, axis: usize) -> String {
    format!("input{input}_{axis}")
}

/// Expands to a match on a datatype: the macro `$numbers` makes an arm for each type of numbers,
/// and `$others` are the other arms.
macro_rules! by_datatype {
    ($datatype:expr, $numbers:ident, $($others:tt)*) => {
        match $datatype {
            Datatype::Uint8 => $numbers!(u8),
            Datatype::Uint16 => $numbers!(u16),
            Datatype::Uint32 => $numbers!(u32),
            Datatype::Uint64 => $numbers!(u64),
            Datatype::Int8 => $numbers!(i8),
            Datatype::Int16 => $numbers!(i16),
            Datatype::Int32 => $numbers!(i32),
            Datatype::Int64 => $numbers!(i64),
            Datatype::Fp16 => $numbers!(f16),
            Datatype::Fp32 => $numbers!(f32),
            Datatype::Fp64 => $numbers!(f64),
            $($others)*
        }
    };
}
pub(super) use by_datatype;
