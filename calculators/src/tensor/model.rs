//! The interface of models that compute tensors from tensors.

use graphmill_engine::Error;
use serde::Serialize;

use super::{Datatype, Tensor, shown};

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TensorInfo {
    /// Name of the input or output in the model.
    pub name: String,
    /// Type of the elements.
    pub datatype: Datatype,
    /// Dimensions, outermost first, with -1 for one of any length.
    pub shape: Vec<i64>,
}

/// An input or output of a model, as a file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTensor {
    /// Name of the input or output in the model.
    pub name: String,
    /// Type of the elements.
    pub datatype: Datatype,
    /// Dimensions, outermost first, with -1 for one of any length. `None` if the file does not give
    /// their number.
    pub shape: Option<Vec<i64>>,
}

impl TensorInfo {
    /// Checks a tensor for this input.
    ///
    /// # Errors
    /// The datatype or the shape differs. The error names the input, and both the expected and the
    /// given value.
    pub fn check(&self, tensor: &Tensor) -> Result<(), Error> {
        let what = if tensor.datatype() != self.datatype {
            format!(
                "takes {}, but the tensor is {}",
                self.datatype,
                tensor.datatype()
            )
        } else if !fits(&self.shape, tensor.shape()) {
            format!(
                "takes the shape {}, but the tensor's is {}",
                shown(&self.shape),
                shown(tensor.shape())
            )
        } else {
            return Ok(());
        };
        let error = Error::invalid(format!("the model's input `{}` {what}", self.name));
        Err(error
            .with_field(self.name.clone())
            .with_code("invalid_value"))
    }
}

/// Returns true if a shape has the wanted dimensions, of which -1 stands for any length.
pub(super) fn fits(wanted: &[i64], shape: &[usize]) -> bool {
    let same = |(wanted, length): (&i64, &usize)| {
        *wanted < 0 || usize::try_from(*wanted).is_ok_and(|wanted| wanted == *length)
    };
    wanted.len() == shape.len() && wanted.iter().zip(shape).all(same)
}

/// A model that computes tensors from tensors. It synchronizes itself, because many sessions run it
/// at the same time.
pub trait TensorModel: Send + Sync {
    /// Returns its inputs, in the order of [`run`](Self::run).
    fn inputs(&self) -> &[TensorInfo];

    /// Returns its outputs, in the order of [`run`](Self::run).
    fn outputs(&self) -> &[TensorInfo];

    /// Computes all outputs from a tensor for each input. Blocks during the computation.
    ///
    /// # Errors
    /// A tensor is not what its input takes, which is checked before anything is computed, or the
    /// computation fails.
    fn run(&self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, Error>;
}
