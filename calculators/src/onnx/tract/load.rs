//! Loading of a model from the bytes of a `.onnx` file: it is read, checked, analyzed and
//! optimized.

use tract_onnx::prelude::{Framework as _, InferenceModelExt as _, IntoRunnable as _, TractError};
use tract_onnx::tract_hir::infer::Factoid as _;
use tract_onnx::tract_hir::internal::{GenericFactoid, InferenceModel, OutletId, TDim, ToDim as _};

use super::super::check;
use super::super::compute::{LoadedModel, unnamed};
use super::{Tract, convert};
use crate::tensor::TensorInfo;

/// Loads a model. The error describes the fault of the bytes.
pub(in super::super) fn load(bytes: &[u8]) -> Result<LoadedModel, String> {
    let said = |error: TractError| format!("{error:#}");
    let proto = check::read(bytes)?;
    let onnx = tract_onnx::onnx();
    let mut model = onnx.model_for_proto_model(&proto).map_err(said)?;
    drop(proto);
    let (inputs, dimensions) = inputs(&mut model)?;
    let names = output_names(&model)?;
    let model = model.into_optimized().map_err(said)?;
    let facts = model
        .outputs
        .iter()
        .map(|outlet| model.outlet_fact(*outlet));
    let outputs = names.into_iter().zip(facts).map(|(name, fact)| {
        let fact = fact.map_err(said)?;
        let datatype = convert::datatype(fact.datum_type)
            .ok_or_else(|| format!("its output `{name}` is of a type that no tensor has"))?;
        let shape = fact.shape.iter().map(length).collect();
        Ok(TensorInfo {
            name,
            datatype,
            shape,
        })
    });
    let outputs = outputs.collect::<Result<Vec<_>, String>>()?;
    let plan = model.into_runnable().map_err(said)?;
    Ok(LoadedModel {
        computer: Box::new(Tract(plan)),
        inputs,
        outputs,
        dimensions,
    })
}

fn length(dimension: &TDim) -> i64 {
    dimension.to_i64().unwrap_or(-1)
}

/// Returns the inputs of the model. Dimensions without a length or a name get a name of their own,
/// so that lengths that depend on them can be computed.
fn inputs(model: &mut InferenceModel) -> Result<(Vec<TensorInfo>, Vec<Vec<String>>), String> {
    let said = |error: TractError| format!("{error:#}");
    let outlets: Vec<OutletId> = model.inputs.clone();
    let (mut inputs, mut all) = (Vec::new(), Vec::new());
    for (index, outlet) in outlets.into_iter().enumerate() {
        let name = model.node(outlet.node).name.clone();
        let mut fact = model.outlet_fact(outlet).map_err(said)?.clone();
        if fact.shape.is_open() {
            return Err(format!(
                "its input `{name}` does not say how many dimensions it has"
            ));
        }
        let datatype = fact.datum_type.concretize().and_then(convert::datatype);
        let datatype = datatype
            .ok_or_else(|| format!("its input `{name}` is of a type that no tensor has"))?;
        let symbols = &model.symbols;
        let dimensions: Vec<TDim> = fact
            .shape
            .dims()
            .enumerate()
            .map(|(axis, dimension)| match dimension {
                GenericFactoid::Only(dimension) => dimension.clone(),
                GenericFactoid::Any => symbols.sym(&unnamed(index, axis)).to_dim(),
            })
            .collect();
        let shape = dimensions.iter().map(length).collect();
        fact = fact.with_shape(&dimensions);
        all.push(dimensions.iter().map(TDim::to_string).collect());
        model.set_outlet_fact(outlet, fact).map_err(said)?;
        inputs.push(TensorInfo {
            name,
            datatype,
            shape,
        });
    }
    if inputs.is_empty() {
        return Err("it has no inputs".to_owned());
    }
    Ok((inputs, all))
}

fn output_names(model: &InferenceModel) -> Result<Vec<String>, String> {
    if model.outputs.is_empty() {
        return Err("it has no outputs".to_owned());
    }
    let name = |outlet: &OutletId| {
        let label = model.outlet_label(*outlet).map(str::to_owned);
        label.unwrap_or_else(|| model.node(outlet.node).name.clone())
    };
    Ok(model.outputs.iter().map(name).collect())
}
