//! The interface of models that compute tensors from tensors.

use graphmill_engine::Error;
use serde::Serialize;

use super::{Datatype, Tensor, shown};

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TensorInfo {
    /// Its name in the model.
    pub name: String,
    /// What its elements are.
    pub datatype: Datatype,
    /// Its dimensions, outermost first; -1 for one of any length.
    pub shape: Vec<i64>,
}

/// An input or output of a model, as a file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTensor {
    /// Name in the model.
    pub name: String,
    /// Type of its elements.
    pub datatype: Datatype,
    /// Dimensions, outermost first, -1 for one of any length; none where the file leaves open how
    /// many there are.
    pub shape: Option<Vec<i64>>,
}

impl TensorInfo {
    /// Whether a tensor is what this input takes.
    ///
    /// # Errors
    /// Names the input, with what it takes and what the tensor is.
    pub fn check(&self, tensor: &Tensor) -> Result<(), Error> {
        let fits = |(wanted, length): (&i64, &usize)| {
            *wanted < 0 || usize::try_from(*wanted).is_ok_and(|wanted| wanted == *length)
        };
        let same_rank = self.shape.len() == tensor.shape().len();
        let what = if tensor.datatype() != self.datatype {
            format!(
                "takes {}, but the tensor is {}",
                self.datatype,
                tensor.datatype()
            )
        } else if !same_rank || !self.shape.iter().zip(tensor.shape()).all(fits) {
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

/// A model that computes tensors from tensors. It synchronizes itself: many sessions run it at the
/// same time.
pub trait TensorModel: Send + Sync {
    /// What it takes, in the order of [`run`](Self::run).
    fn inputs(&self) -> &[TensorInfo];

    /// What it gives, in the order of [`run`](Self::run).
    fn outputs(&self) -> &[TensorInfo];

    /// Computes the outputs, all of them, from a tensor of each input. Takes as long as the
    /// computation does.
    ///
    /// # Errors
    /// Where a tensor is not what its input takes, before anything is computed; and where the
    /// computation fails.
    fn run(&self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, Error>;
}
