//! The generated graph for an ONNX model: a stream for each of its inputs and outputs.

use std::{fmt::Write as _, path::Path};

use graphmill_calculators::{onnx::signature, tensor::TensorInfo};
use graphmill_engine::{FileSource as _, Files};

use super::graph::{quoted, whole_path};

/// Writes the graph of a model, whose file it names by its whole path.
pub(super) fn text(model: &Path) -> Result<String, String> {
    let path = whole_path(model)?;
    let wrong = |why: String| format!("`{}`: {why}", model.display());
    let bytes = Files::default().read(model);
    let bytes = bytes.map_err(|error| wrong(error.to_string()))?;
    let [inputs, outputs] = signature(&bytes).map_err(wrong)?;
    let [mut streams, mut tensors, mut ports, mut tags] = [const { String::new() }; 4];
    for (kind, infos) in [("input", &inputs), ("output", &outputs)] {
        for (place, info) in infos.iter().enumerate() {
            let (stream, tag) = (stream_of(info), format!("{}{place}", kind.to_uppercase()));
            let (name, datatype, shape) = (quoted(&info.name), info.datatype, &info.shape);
            let written = [
                writeln!(streams, "{kind}_stream: \"{stream}\""),
                writeln!(
                    tensors,
                    "    {kind} {{ name: \"{stream}\" datatype: {datatype} shape: {shape:?} }}"
                ),
                writeln!(ports, "  {kind}_stream: \"{tag}:{stream}\""),
                writeln!(
                    tags,
                    "      tag_to_{kind}_tensor_names {{ key: \"{tag}\" value: {name} }}"
                ),
            ];
            written
                .into_iter()
                .collect::<Result<(), _>>()
                .expect("a string takes all");
        }
    }
    let path = quoted(&path);
    Ok(format!(
        r#"{streams}graph_options {{
  [type.googleapis.com/graphmill.TensorOptions] {{
{tensors}  }}
}}

node {{
  calculator: "OnnxInferenceCalculator"
  input_side_packet: "SESSION:model"
{ports}  node_options {{
    [type.googleapis.com/graphmill.OnnxInferenceCalculatorOptions] {{
      model_path: {path}
{tags}    }}
  }}
}}
"#
    ))
}

/// The name of a tensor as one of a stream.
fn stream_of(info: &TensorInfo) -> String {
    let plain = |it: char| {
        if it.is_ascii_alphanumeric() {
            it.to_ascii_lowercase()
        } else {
            '_'
        }
    };
    let name: String = info.name.chars().map(plain).collect();
    if name.starts_with(|it: char| it.is_ascii_lowercase()) {
        name
    } else {
        format!("tensor_{name}")
    }
}
