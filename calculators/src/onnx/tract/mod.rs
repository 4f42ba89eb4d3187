//! Models computed by tract. Each run takes one thread, and runs do not wait for each other.

mod convert;
mod load;

use std::sync::Arc;

use graphmill_engine::{Error, Result};
use tract_onnx::prelude::{IntoTValue as _, TValue, TVec, TractResult, TypedRunnableModel};
use tract_onnx::tract_hir::internal::{Node, TypedFact, TypedOp, format_err};

pub(super) use convert::datatype;
pub(super) use load::load;

use super::compute::{Compute, MAX_TENSOR_BYTES};
use crate::tensor::{Tensor, TensorInfo};

/// A plan of tract for one model.
struct Tract(Arc<TypedRunnableModel>);

impl Tract {
    fn compute(&self, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let mut state = self.0.spawn()?;
        state.run_plan_with_eval(
            inputs,
            |cx, state, node: &Node<TypedFact, Box<dyn TypedOp>>, inputs| {
                for output in &node.outputs {
                    let dimensions = output.fact.shape.eval_to_usize(cx.symbols);
                    let Ok(dimensions) = dimensions else { continue };
                    let size = output.fact.datum_type.size_of();
                    let bytes = dimensions
                        .iter()
                        .try_fold(size, |bytes, it| bytes.checked_mul(*it));
                    if bytes.is_none_or(|bytes| bytes > MAX_TENSOR_BYTES) {
                        return Err(format_err!(
                            "`{}` would have more than {MAX_TENSOR_BYTES} bytes",
                            node.name
                        ));
                    }
                }
                tract_onnx::tract_core::plan::eval(cx, state, node, inputs)
            },
        )
    }
}

impl Compute for Tract {
    fn run(
        &self,
        inputs: &[(&TensorInfo, &Tensor)],
        outputs: &[TensorInfo],
    ) -> Result<Vec<Tensor>> {
        let inputs = inputs
            .iter()
            .map(|(info, tensor)| Ok(convert::to_tract(tensor, &info.name)?.into_tvalue()))
            .collect::<Result<TVec<TValue>>>()?;
        let computed = self
            .compute(inputs)
            .map_err(|error| Error::internal(format!("the model failed: {error:#}")))?;
        let outputs = outputs.iter().zip(&computed).map(|(info, output)| {
            convert::from_tract(output).map_err(|error| {
                Error::internal(format!("the model's output `{}`: {error}", info.name))
            })
        });
        outputs.collect()
    }
}
