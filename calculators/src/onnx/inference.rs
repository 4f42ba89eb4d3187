//! `OnnxInferenceCalculator`: tensors through a model.

use std::sync::Arc;

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, Group, In, OpenCx, Out, Res, Result, Run, register,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::OnnxModel;
use super::file::OnnxSpec;
use super::runtime::{RUNTIME, Runtime};
use crate::tensor::{Tensor, TensorInfo, TensorModel};

/// Tags of OVMS and `MediaPipe` whose packets have several tensors.
const VECTORS: [&str; 4] = ["OVTENSORS", "TENSORS", "TFTENSORS", "TFLITE_TENSORS"];

/// Options of [`Inference`].
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InferenceOptions {
    /// A `.onnx` file, or a folder with one; relative to the graph's folder. Not where another node
    /// says which model the side packet is.
    pub model_path: String,
    /// What computes the model. Not where another node says which model the side packet is.
    pub runtime: Runtime,
    /// Which input of the model the stream of a tag is. A tag that is not listed is the input with
    /// the same name, whatever the case, or the only one.
    pub tag_to_input_tensor_names: Vec<TagName>,
    /// Which output of the model the stream of a tag is; as for inputs. Outputs that no tag stands
    /// for are left out.
    pub tag_to_output_tensor_names: Vec<TagName>,
    /// The order of several tensors in one packet. Refused: a packet has one tensor.
    pub input_order_list: Vec<String>,
    /// As `input_order_list`.
    pub output_order_list: Vec<String>,
}

/// A tag and a name in the model.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TagName {
    /// The tag of the node's stream.
    pub key: String,
    /// The name of the model's input or output.
    pub value: String,
}

/// Runs a model: a tensor of each of its inputs goes in, and tensors of its outputs come out at the
/// same timestamp. Streams have any tags, each once.
///
/// The model is an ONNX file, which the option `model_path` names, or another node by the side
/// packet. It is loaded once, however many nodes, graphs and requests use it. What it is given has
/// to have the datatype and shape that its inputs have. It runs on the executor `cpu`; with
/// `max_in_flight` several timestamps are computed at once.
///
/// ```pbtxt
/// input_stream: "image"
/// output_stream: "scores"
/// node {
///   calculator: "OnnxInferenceCalculator"
///   input_side_packet: "SESSION:digits"
///   input_stream: "IMAGE:image"
///   output_stream: "SCORES:scores"
///   node_options {
///     [type.googleapis.com/graphmill.OnnxInferenceCalculatorOptions] {
///       model_path: "model.onnx"
///       tag_to_input_tensor_names { key: "IMAGE" value: "pixels" }
///     }
///   }
/// }
/// ```
pub struct Inference {
    model: Arc<OnnxModel>,
    wiring: Wiring,
}

/// The streams, and the model.
pub struct InferencePorts {
    inputs: Vec<(String, In<Tensor>)>,
    outputs: Vec<(String, Out<Tensor>)>,
    model: Res<OnnxModel>,
}

impl Calculator for Inference {
    const NAME: &'static str = "OnnxInferenceCalculator";
    const DOC: &'static str = "Runs an ONNX model on tensors.";
    const OPTION_NAMES: &'static [&'static str] = &["mediapipe.OpenVINOInferenceCalculatorOptions"];
    type Options = InferenceOptions;
    type Ports = Arc<InferencePorts>;

    fn contract(c: &mut Contract, options: &InferenceOptions) -> Self::Ports {
        c.run(Run::Offload("cpu"));
        c.parallel();
        for (name, list) in [
            ("input_order_list", &options.input_order_list),
            ("output_order_list", &options.output_order_list),
        ] {
            if !list.is_empty() {
                c.option_error(name, format!("`{name}` is not supported: a packet has one tensor, and each tensor a stream"));
            }
        }
        check_tags(
            c,
            Group::Inputs,
            "tag_to_input_tensor_names",
            &options.tag_to_input_tensor_names,
        );
        check_tags(
            c,
            Group::Outputs,
            "tag_to_output_tensor_names",
            &options.tag_to_output_tensor_names,
        );
        options.runtime.check(c);
        let is_named = !options.model_path.is_empty();
        if !is_named && options.runtime != Runtime::default() {
            c.option_error(
                RUNTIME,
                "`runtime` belongs to the node that names the model: give `model_path` here, or `runtime` there",
            );
        }
        let spec = is_named.then(|| OnnxSpec::file(&options.model_path, options.runtime));
        let inputs = c.tags(Group::Inputs).into_iter();
        let inputs = inputs.map(|tag| (tag.clone(), c.input(&tag))).collect();
        let outputs = c.tags(Group::Outputs).into_iter();
        let outputs = outputs.map(|tag| (tag.clone(), c.output(&tag))).collect();
        let io = Arc::new(InferencePorts {
            inputs,
            outputs,
            model: c.resource("SESSION", spec),
        });
        let (options, ports) = (options.clone(), Arc::clone(&io));
        c.check_resource(io.model, move |model| {
            Wiring::new(&options, &ports, model).map(drop)
        });
        io
    }

    fn open(options: &InferenceOptions, io: Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        let model = cx.resource(io.model);
        Ok(Self {
            wiring: Wiring::new(options, &io, &model)?,
            model,
        })
    }

    fn process(&mut self, io: Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let infos = self.model.inputs().iter();
        let inputs = infos.zip(&self.wiring.inputs).map(|(info, at)| {
            let (tag, input) = &io.inputs[*at];
            cx.take(*input).ok_or_else(|| {
                let name = &info.name;
                Error::invalid(format!(
                    "`{tag}` has no tensor for the model's input `{name}`"
                ))
                .with_field(name.clone())
            })
        });
        let inputs = inputs.collect::<Result<_>>()?;
        let outputs = self.model.run(inputs)?;
        for ((_, output), at) in io.outputs.iter().zip(&self.wiring.outputs) {
            cx.emit(*output, outputs[*at].clone());
        }
        Ok(Flow::Continue)
    }
}
register!(Inference);
register!(Inference as "OpenVINOInferenceCalculator");

/// Checks the tags of a group, and what is said of them.
fn check_tags(c: &mut Contract, group: Group, option: &str, names: &[TagName]) {
    let tags = c.tags(group);
    for tag in &tags {
        if VECTORS.iter().any(|vector| tag.starts_with(vector)) {
            c.error(format!("streams with the tag `{tag}` carry several tensors, which is not supported: give each tensor a stream"));
        }
    }
    for name in names {
        if !tags.contains(&name.key) {
            let message = format!(
                "the node has no {} with the tag `{}`",
                group.noun(),
                name.key
            );
            c.option_error(option, message);
        }
    }
}

/// Which streams are which inputs and outputs of the model.
struct Wiring {
    /// For each input of the model, which of the node's.
    inputs: Vec<usize>,
    /// For each output of the node, which of the model's.
    outputs: Vec<usize>,
}

impl Wiring {
    /// The error names what the model lacks, or what the node leaves out.
    fn new(options: &InferenceOptions, io: &InferencePorts, model: &OnnxModel) -> Result<Self> {
        let names = &options.tag_to_input_tensor_names;
        let mut inputs = vec![None; model.inputs().len()];
        for (at, (tag, _)) in io.inputs.iter().enumerate() {
            let input = find(model.inputs(), "input", tag, names)?;
            if inputs[input].replace(at).is_some() {
                let name = &model.inputs()[input].name;
                let message = format!("two streams are the model's input `{name}`");
                return Err(Error::precondition(message));
            }
        }
        let inputs = inputs.into_iter().zip(model.inputs());
        let inputs = inputs.map(|(input, info)| {
            input.ok_or_else(|| {
                let message = format!("no stream is the model's input `{}`", info.name);
                Error::precondition(message)
            })
        });
        let names = &options.tag_to_output_tensor_names;
        let outputs = io.outputs.iter();
        let outputs = outputs.map(|(tag, _)| find(model.outputs(), "output", tag, names));
        Ok(Self {
            inputs: inputs.collect::<Result<_>>()?,
            outputs: outputs.collect::<Result<_>>()?,
        })
    }
}

/// Which of the model's inputs or outputs a tag stands for.
fn find(infos: &[TensorInfo], noun: &str, tag: &str, names: &[TagName]) -> Result<usize> {
    let chosen = names.iter().position(|name| name.key == tag);
    let found = match chosen.map(|at| &names[at]) {
        Some(chosen) => infos.iter().position(|info| info.name == chosen.value),
        None if infos.len() == 1 => Some(0),
        None => infos
            .iter()
            .position(|info| info.name.eq_ignore_ascii_case(tag)),
    };
    found.ok_or_else(|| {
        let name = chosen.map_or(tag, |at| &names[at].value);
        let all: Vec<String> = infos
            .iter()
            .map(|info| format!("`{}`", info.name))
            .collect();
        let all = all.join(", ");
        let error = Error::precondition(format!("the model has no {noun} `{name}`, but {all}"));
        match chosen {
            Some(at) => error.with_field(format!("tag_to_{noun}_tensor_names/{at}/value")),
            None => error,
        }
    })
}
