//! ONNX models: the tensors in their files, and the generated graph, which has a stream for each
//! tensor.

use std::path::Path;

use graphmill_calculators::tensor::FileTensor;

use super::{
    graph::whole_path,
    tensors::{Streams, TensorPort, TensorStreams, formatted, head, onnx_node},
};

/// Reads the inputs and the outputs of a model.
#[cfg(feature = "onnx")]
pub(super) fn tensors(model: &Path) -> Result<[Vec<FileTensor>; 2], String> {
    let tensors = graphmill_calculators::onnx::signature(model);
    tensors.map_err(|why| format!("`{}`: {why}", model.display()))
}

#[cfg(not(feature = "onnx"))]
pub(super) fn tensors(model: &Path) -> Result<[Vec<FileTensor>; 2], String> {
    let shown = model.display();
    Err(format!(
        "cannot serve `{shown}`: this build does not support ONNX models (feature `onnx`)"
    ))
}

/// Writes the graph of a model. The graph names the model by its absolute path.
pub(super) fn text(model: &Path) -> Result<String, String> {
    let path = whole_path(model)?;
    let mut ports = [const { Vec::new() }; 2];
    for (ports, tensors) in ports.iter_mut().zip(tensors(model)?) {
        for tensor in tensors {
            let (name, shown) = (tensor.name, model.display());
            let shape = tensor.shape.ok_or_else(|| {
                format!("`{shown}`: its `{name}` has an unknown number of dimensions")
            })?;
            let datatype = Some(tensor.datatype);
            ports.push(TensorPort {
                name,
                datatype,
                shape,
                format: None,
                labels: Vec::new(),
            });
        }
    }
    let mut streams = Streams::default();
    let head = head(&mut streams, &ports, "");
    let [inputs, outputs] = ports.map(|ports| -> TensorStreams {
        let names = ports.into_iter().map(|port| port.name);
        names
            .map(|name| (name.clone(), streams.name(&name)))
            .collect()
    });
    let [ports, model] = onnx_node(&path, "model", [&inputs, &outputs]);
    Ok(formatted(format!("{head}\nnode {{\n{ports}{model}}}\n")))
}
