//! Checks of a file before a runtime reads it: its tensors have the size that they claim, and none
//! is so large that it would end the process.

use std::collections::HashMap;
use std::io::Cursor;

use tract_onnx::pb::{
    GraphProto, ModelProto, NodeProto, TensorProto,
    tensor_proto::{DataLocation, DataType},
};
use tract_onnx::prelude::Framework as _;

/// Maximum number of elements of a tensor that a node makes from constants, such as one of zeros.
const MAX_MADE: i128 = 1 << 28;
/// Maximum depth of nested graphs (the branches of an `If`, the body of a `Loop`).
const MAX_DEPTH: usize = 16;

/// Reads a file and checks it for a runtime. The error describes the fault.
pub(super) fn read(bytes: &[u8]) -> Result<ModelProto, String> {
    let model = tract_onnx::onnx()
        .proto_model_for_read(&mut Cursor::new(bytes))
        .map_err(|error| format!("it is not an ONNX file: {error:#}"))?;
    let graph = model.graph.as_ref().ok_or("it has no graph")?;
    self::graph(graph, bytes.len(), 0)?;
    Ok(model)
}

fn graph(graph: &GraphProto, size: usize, depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!("its graphs are nested more than {MAX_DEPTH} deep"));
    }
    let mut constants = HashMap::new();
    for it in &graph.initializer {
        tensor(it, size)?;
        constants.insert(it.name.as_str(), it);
    }
    for node in &graph.node {
        for attribute in &node.attribute {
            let tensors = attribute.t.iter().chain(&attribute.tensors);
            tensors.into_iter().try_for_each(|it| tensor(it, size))?;
            if node.op_type == "Constant"
                && let (Some(value), Some(name)) = (&attribute.t, node.output.first())
            {
                constants.insert(name.as_str(), value);
            }
            let mut graphs = attribute.g.iter().chain(&attribute.graphs);
            graphs.try_for_each(|it| self::graph(it, size, depth + 1))?;
        }
    }
    graph
        .node
        .iter()
        .try_for_each(|node| made(node, &constants))
}

/// Checks that the file is large enough for a tensor's elements.
fn tensor(tensor: &TensorProto, size: usize) -> Result<(), String> {
    let name = &tensor.name;
    let is_external = tensor.data_location == Some(DataLocation::External as i32);
    if is_external || !tensor.external_data.is_empty() {
        return Err(format!(
            "its tensor `{name}` is in another file, but a model must be a single file"
        ));
    }
    // An element takes at least one byte.
    if product(&tensor.dims).is_none_or(|elements| elements > size as i128) {
        return Err(format!(
            "its tensor `{name}` has the shape {:?}, which is more than the file holds",
            tensor.dims
        ));
    }
    Ok(())
}

/// Checks the size of a tensor that a node makes from constant shapes.
fn made(node: &NodeProto, constants: &HashMap<&str, &TensorProto>) -> Result<(), String> {
    let integers = |at: usize| {
        let constant = *constants.get(node.input.get(at)?.as_str())?;
        (constant.data_type == DataType::Int64 as i32).then(|| integers(constant))
    };
    let shape = match node.op_type.as_str() {
        "ConstantOfShape" => integers(0),
        "Expand" | "Tile" | "Reshape" => integers(1),
        "Mul" => return multiplied(node, integers(0), integers(1)),
        _ => None,
    };
    let Some(dimensions) = shape else {
        return Ok(());
    };
    // -1 stands for a length that follows from the others, or for the length of the input.
    let dimensions: Vec<i64> = dimensions.iter().map(|it| (*it).max(1)).collect();
    if product(&dimensions).is_none_or(|elements| elements > MAX_MADE) {
        return Err(format!(
            "its node `{}` ({}) makes a tensor of the shape {dimensions:?}, but at most {MAX_MADE} elements are allowed",
            node.name, node.op_type
        ));
    }
    Ok(())
}

/// Checks that products of constants do not overflow. tract would continue with wrapped numbers.
fn multiplied(
    node: &NodeProto,
    one: Option<Vec<i64>>,
    other: Option<Vec<i64>>,
) -> Result<(), String> {
    let (Some(one), Some(other)) = (one, other) else {
        return Ok(());
    };
    let products = one.len().max(other.len());
    let mut pairs = one.iter().cycle().zip(other.iter().cycle()).take(products);
    match pairs.find(|(one, other)| one.checked_mul(**other).is_none()) {
        Some((one, other)) => Err(format!(
            "its node `{}` (Mul) multiplies {one} by {other}, which is more than can be counted",
            node.name
        )),
        None => Ok(()),
    }
}

fn integers(constant: &TensorProto) -> Vec<i64> {
    match constant.raw_data.as_chunks().0 {
        [] => constant.int64_data.clone(),
        raw => raw.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect(),
    }
}

/// Returns the number of elements; `None` for an impossible shape.
fn product(dimensions: &[i64]) -> Option<i128> {
    dimensions.iter().try_fold(1_i128, |product, length| {
        let product = product.checked_mul(i128::from(*length))?;
        (*length >= 0).then_some(product)
    })
}
