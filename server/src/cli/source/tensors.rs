//! Parts of generated graphs of tensors: names of streams, declarations, and nodes of ONNX models.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use graphmill_calculators::tensor::Datatype;
use graphmill_grammar::{SourceMap, fmt};

use super::graph::quoted;

/// The tensors of a model, each with its stream.
pub(super) type TensorStreams = Vec<(String, String)>;

/// An input or output of a generated graph.
pub(super) struct TensorPort {
    pub(super) name: String,
    pub(super) datatype: Option<Datatype>,
    pub(super) shape: Vec<i64>,
    /// Order of the dimensions of an image; `None` for other tensors.
    pub(super) format: Option<&'static str>,
    /// Names of its classes, in order.
    pub(super) labels: Vec<String>,
}

/// Assigns names of streams to tensors, whose names may contain more characters.
#[derive(Default)]
pub(super) struct Streams {
    by_tensor: BTreeMap<String, String>,
    taken: BTreeSet<String>,
    /// Number of tensors whose names became the same.
    alike: BTreeMap<String, u32>,
}

impl Streams {
    /// Returns the stream of a tensor, always the same for the same tensor.
    pub(super) fn name(&mut self, tensor: &str) -> String {
        if let Some(known) = self.by_tensor.get(tensor) {
            return known.clone();
        }
        let plain = plain(tensor);
        let mut name = plain.clone();
        while !self.taken.insert(name.clone()) {
            let count = self.alike.entry(plain.clone()).or_insert(1);
            *count += 1;
            name = format!("{plain}_{count}");
        }
        self.by_tensor.insert(tensor.to_owned(), name.clone());
        name
    }
}

/// Replaces the characters that a stream's name cannot have.
fn plain(tensor: &str) -> String {
    let allowed = |it: char| match it.to_ascii_lowercase() {
        it if it.is_ascii_alphanumeric() => it,
        _ => '_',
    };
    let plain: String = tensor.chars().map(allowed).collect();
    if plain.starts_with(|it: char| it.is_ascii_lowercase() || it == '_') {
        plain
    } else {
        format!("t{plain}")
    }
}

/// Writes the streams of a graph, inputs before outputs, and their declarations. `more` is appended
/// to the declarations.
pub(super) fn head(streams: &mut Streams, ports: &[Vec<TensorPort>; 2], more: &str) -> String {
    let (mut text, mut declared) = (String::new(), String::new());
    for (side, ports) in ["input", "output"].into_iter().zip(ports) {
        for port in ports {
            let stream = streams.name(&port.name);
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{side}_stream: {}", quoted(&stream));
            let _ = write!(declared, "{side} {{ name: {}", quoted(&port.name));
            if stream != port.name {
                let _ = write!(declared, " stream: {}", quoted(&stream));
            }
            if let Some(datatype) = port.datatype {
                let _ = write!(declared, " datatype: {datatype} shape: {:?}", port.shape);
            }
            if let Some(format) = port.format {
                let _ = write!(declared, " format: {format}");
            }
            for label in &port.labels {
                let _ = write!(declared, " label: {}", quoted(label));
            }
            declared.push_str(" }\n");
        }
    }
    let _ = writeln!(
        text,
        "graph_options {{\n[type.googleapis.com/graphmill.TensorOptions] {{\n{declared}{more}}}\n}}"
    );
    text
}

/// Writes the ports and the other fields of a model's node.
pub(super) fn onnx_node(path: &str, resource: &str, wired: [&TensorStreams; 2]) -> [String; 2] {
    let mut tags = Streams::default();
    let [mut ports, mut names] = [const { String::new() }; 2];
    for (side, wired) in ["input", "output"].into_iter().zip(wired) {
        for (tensor, stream) in wired {
            let tag = tags.name(&format!("{side} {tensor}")).to_ascii_uppercase();
            let port = quoted(&format!("{tag}:{stream}"));
            let _ = writeln!(ports, "{side}_stream: {port}");
            let (tag, tensor) = (quoted(&tag), quoted(tensor));
            let _ = writeln!(
                names,
                "tag_to_{side}_tensor_names {{ key: {tag} value: {tensor} }}"
            );
        }
    }
    let (path, session) = (quoted(path), quoted(&format!("SESSION:{resource}")));
    let model = format!(
        "calculator: \"OnnxInferenceCalculator\"\ninput_side_packet: {session}\nnode_options {{\n\
         [type.googleapis.com/graphmill.OnnxInferenceCalculatorOptions] {{\nmodel_path: {path}\n\
         {names}}}\n}}\n"
    );
    [ports, model]
}

/// Formats a graph as `graphmill fmt` does.
pub(super) fn formatted(text: String) -> String {
    // The generated text can always be parsed.
    fmt::format(&mut SourceMap::new(), "", text.as_str()).unwrap_or(text)
}
