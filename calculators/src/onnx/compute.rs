//! What the libraries that compute models have in common.

use graphmill_engine::Result;

use crate::tensor::{Tensor, TensorInfo};

/// Most bytes that a tensor inside of a model may have: more than models for CPUs need, and less
/// than brings a server down.
pub(super) const MAX_TENSOR_BYTES: usize = 4 << 30;

/// A model as it runs.
pub(super) struct Loaded {
    pub(super) computer: Box<dyn Compute>,
    pub(super) inputs: Vec<TensorInfo>,
    pub(super) outputs: Vec<TensorInfo>,
    /// For each input, names of its dimensions: those with the same name have the same length.
    pub(super) dimensions: Vec<Vec<String>>,
}

/// What computes one model. Many threads call it at the same time.
pub(super) trait Compute: Send + Sync {
    /// Computes all outputs from a tensor of each input, which has the input's datatype and shape.
    /// May panic.
    fn run(&self, inputs: &[(&TensorInfo, &Tensor)], outputs: &[TensorInfo])
    -> Result<Vec<Tensor>>;
}

/// The name of a dimension that the model has no name for.
pub(super) fn unnamed(input: usize, axis: usize) -> String {
    format!("input{input}_{axis}")
}

/// A match on a datatype: the macro `$numbers` makes the arm of each type of numbers, `$others` are
/// the other arms.
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
