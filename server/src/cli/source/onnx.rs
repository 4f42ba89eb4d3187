//! ONNX models: what their files say of their tensors, and the generated graph, which has a stream for
//! each of them.

use std::path::Path;

use graphmill_calculators::tensor::FileTensor;

use super::{
    graph::whole_path,
    tensors::{Port, Streams, Wired, formatted, head, onnx_node},
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
        "cannot serve `{shown}`: this build has no ONNX models (the feature `onnx`)"
    ))
}

/// Writes the graph of a model, whose file it names by its whole path.
pub(super) fn text(model: &Path) -> Result<String, String> {
    let path = whole_path(model)?;
    let mut ports = [const { Vec::new() }; 2];
    for (ports, tensors) in ports.iter_mut().zip(tensors(model)?) {
        for tensor in tensors {
            let (name, shown) = (tensor.name, model.display());
            let shape = tensor.shape.ok_or_else(|| {
                format!("`{shown}`: its `{name}` does not say how many dimensions it has")
            })?;
            let datatype = Some(tensor.datatype);
            ports.push(Port {
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
    let [inputs, outputs] = ports.map(|ports| -> Wired {
        let names = ports.into_iter().map(|port| port.name);
        names
            .map(|name| (name.clone(), streams.name(&name)))
            .collect()
    });
    let [ports, model] = onnx_node(&path, "model", [&inputs, &outputs]);
    Ok(formatted(format!("{head}\nnode {{\n{ports}{model}}}\n")))
}
