//! The generated graph for an ONNX model: a stream for each of its inputs and outputs.

use std::path::Path;

use graphmill_calculators::{onnx::signature, tensor::TensorInfo};

use super::{
    graph::whole_path,
    tensors::{Port, Streams, Wired, formatted, head, onnx_node},
};

/// Writes the graph of a model, whose file it names by its whole path.
pub(super) fn text(model: &Path) -> Result<String, String> {
    let path = whole_path(model)?;
    let wrong = |why: String| format!("`{}`: {why}", model.display());
    let bytes = std::fs::read(model).map_err(|error| wrong(error.to_string()))?;
    let port = |info: &TensorInfo| Port {
        name: info.name.clone(),
        datatype: Some(info.datatype),
        shape: info.shape.clone(),
    };
    let sides = signature(&bytes).map_err(wrong)?;
    let ports = sides.map(|infos| infos.iter().map(port).collect::<Vec<Port>>());
    let mut streams = Streams::default();
    let head = head(&mut streams, &ports, "");
    let [inputs, outputs] = ports.map(|ports| -> Wired {
        let names = ports.into_iter().map(|port| port.name);
        names
            .map(|name| (name.clone(), streams.name(&name)))
            .collect()
    });
    let [ports, model] = onnx_node(&path, "model", [&inputs, &outputs]);
    Ok(formatted(format!("{head}\nnode {{\n{ports}{model}}}\n")))
}
