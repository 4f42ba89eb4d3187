//! Inputs and outputs of a model, read from its file without loading the model.

use std::path::Path;

use graphmill_engine::{FileSource as _, Files};
use tract_onnx::pb::{
    ValueInfoProto, tensor_proto::DataType, tensor_shape_proto::dimension::Value as Length,
    type_proto::Value as Type,
};
use tract_onnx::prelude::DatumType;

use super::{OnnxSpec, Runtime, check, tract};
use crate::tensor::FileTensor;

/// Reads the inputs and the outputs of a model, a `.onnx` file or a folder with one.
///
/// # Errors
/// The file cannot be read, is not a valid model, or has an input or output that is not a tensor.
pub fn signature(model: &Path) -> Result<[Vec<FileTensor>; 2], String> {
    let files = Files::default();
    let file = OnnxSpec::file(model, Runtime::default()).resolve(&files);
    let bytes = files.read(&file.map_err(|error| error.to_string())?);
    let bytes = bytes.map_err(|error| error.to_string())?;
    let graph = check::read(&bytes)?.graph.ok_or("it has no graph")?;
    let is_constant = |name: &str| graph.initializer.iter().any(|it| it.name == name);
    let inputs = graph.input.iter().filter(|it| !is_constant(&it.name));
    Ok([
        inputs.map(info).collect::<Result<_, _>>()?,
        graph.output.iter().map(info).collect::<Result<_, _>>()?,
    ])
}

fn info(value: &ValueInfoProto) -> Result<FileTensor, String> {
    let name = &value.name;
    let kind = value.r#type.as_ref().and_then(|it| it.value.as_ref());
    let Some(Type::TensorType(tensor)) = kind else {
        return Err(format!("its `{name}` is not a tensor"));
    };
    let of = DataType::try_from(tensor.elem_type).ok();
    let of = of.and_then(|of| DatumType::try_from(of).ok());
    let datatype = of
        .and_then(tract::datatype)
        .ok_or_else(|| format!("its `{name}` is of a type that no tensor has"))?;
    let length = |value: &Option<Length>| match value {
        Some(Length::DimValue(length)) if *length > 0 => *length,
        _ => -1,
    };
    let shape = tensor.shape.as_ref();
    Ok(FileTensor {
        name: name.clone(),
        datatype,
        shape: shape.map(|it| it.dim.iter().map(|it| length(&it.value)).collect()),
    })
}
