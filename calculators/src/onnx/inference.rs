//! `OnnxInferenceCalculator`: runs a model on tensors.

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

/// Tags of OVMS and `MediaPipe` whose packets have several tensors. They are not supported.
const VECTORS: [&str; 4] = ["OVTENSORS", "TENSORS", "TFTENSORS", "TFLITE_TENSORS"];

/// Options of an `OnnxInferenceCalculator` node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InferenceOptions {
    /// Path of a `.onnx` file, or of a folder with one, relative to the graph's folder. Not allowed
    /// if another node names the model of the side packet.
    pub model_path: String,
    /// Library that computes the model. Not allowed if another node names the model of the side
    /// packet.
    pub runtime: Runtime,
    /// Names of the model's inputs for the tags of streams. A tag that is not listed stands for the
    /// input with the same name in any case, or for the only input.
    pub tag_to_input_tensor_names: Vec<TagName>,
    /// Names of the model's outputs for the tags of streams, as for inputs. Outputs without a tag
    /// are left out.
    pub tag_to_output_tensor_names: Vec<TagName>,
    /// Order of several tensors in one packet. Not supported: a packet has one tensor.
    pub input_order_list: Vec<String>,
    /// Order of several tensors in one packet. Not supported, as `input_order_list`.
    pub output_order_list: Vec<String>,
}

/// A tag and the name that it stands for in the model.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TagName {
    /// Tag of the node's stream.
    pub key: String,
    /// Name of the model's input or output.
    pub value: String,
}

/// Runs a model on a tensor for each of its inputs. The tensors of its outputs come out at the same
/// timestamp. Streams may have any tags, each once.
///
/// The option `model_path` names the model, an ONNX file, or another node names it by the side
/// packet. It is loaded once, however many nodes, graphs and requests use it. Tensors must have the
/// datatype and shape of its inputs. The node runs on the executor `cpu`. With `max_in_flight` it
/// computes several timestamps at once.
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

/// The streams of an [`Inference`] node, and its model.
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
        let names = &options.tag_to_input_tensor_names;
        check_tags(c, Group::Inputs, "input", names);
        let names = &options.tag_to_output_tensor_names;
        check_tags(c, Group::Outputs, "output", names);
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
                let message = format!("`{tag}` has no tensor for the model's input `{name}`");
                Error::invalid(message).with_field(name.clone())
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

/// Checks the tags of a group, and the options about them.
fn check_tags(c: &mut Contract, group: Group, noun: &str, names: &[TagName]) {
    let tags = c.tags(group);
    for tag in &tags {
        if VECTORS.iter().any(|vector| tag.starts_with(vector)) {
            c.error(format!("streams with the tag `{tag}` carry several tensors, which is not supported: give each tensor a stream"));
        }
    }
    for name in names {
        if !tags.contains(&name.key) {
            let (stream, tag) = (group.noun(), &name.key);
            let message = format!("the node has no {stream} with the tag `{tag}`");
            c.option_error(&format!("tag_to_{noun}_tensor_names"), message);
        }
    }
}

/// The connections between the node's streams and the model's inputs and outputs.
struct Wiring {
    /// Number of the node's input for each input of the model.
    inputs: Vec<usize>,
    /// Number of the model's output for each output of the node.
    outputs: Vec<usize>,
}

impl Wiring {
    /// Connects the streams. The error names what the model lacks, or what the node leaves out.
    fn new(options: &InferenceOptions, io: &InferencePorts, model: &OnnxModel) -> Result<Self> {
        let names = &options.tag_to_input_tensor_names;
        let mut inputs = vec![None; model.inputs().len()];
        for (at, (tag, _)) in io.inputs.iter().enumerate() {
            let input = find(model.inputs(), "input", tag, names)?;
            if inputs[input].replace(at).is_some() {
                let name = &model.inputs()[input].name;
                let message = format!("two streams feed the model's input `{name}`");
                return Err(Error::precondition(message));
            }
        }
        let inputs = inputs.into_iter().zip(model.inputs());
        let inputs = inputs.map(|(input, info)| {
            input.ok_or_else(|| {
                let message = format!("no stream feeds the model's input `{}`", info.name);
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

/// Returns the number of the model's input or output that a tag stands for.
fn find(infos: &[TensorInfo], noun: &str, tag: &str, names: &[TagName]) -> Result<usize> {
    let chosen = names.iter().position(|name| name.key == tag);
    let name = chosen.map_or(tag, |at| &names[at].value);
    let found = if chosen.is_none() && infos.len() == 1 {
        Some(0)
    } else {
        infos.iter().position(|info| match chosen {
            Some(_) => info.name == name,
            None => info.name.eq_ignore_ascii_case(name),
        })
    };
    found.ok_or_else(|| {
        let all: Vec<&str> = infos.iter().map(|info| info.name.as_str()).collect();
        let all = all.join("`, `");
        let error = Error::precondition(format!("the model has no {noun} `{name}`, but `{all}`"));
        match chosen {
            Some(at) => error.with_field(format!("tag_to_{noun}_tensor_names/{at}/value")),
            None => error,
        }
    })
}
