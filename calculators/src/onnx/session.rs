//! `OnnxSessionCalculator`: names the model of a side packet.

use graphmill_engine::{Calculator, Contract, Cx, Flow, OpenCx, Result, register};
use schemars::JsonSchema;
use serde::Deserialize;

use super::OnnxModel;
use super::file::{MODEL, OnnxSpec};
use super::runtime::Runtime;

/// Options of an `OnnxSessionCalculator` node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OnnxSessionOptions {
    /// Path of a `.onnx` file, or of a folder with one, relative to the graph's folder. Required.
    pub model_path: String,
    /// Library that computes the model. Default: `TRACT`.
    pub runtime: Runtime,
}

/// Names the model of a side packet, for the nodes that run it. A model is loaded once, however
/// many nodes, graphs and requests use it. It is loaded again when its file is replaced.
///
/// ```pbtxt
/// input_stream: "x"
/// output_stream: "y"
/// node {
///   calculator: "OnnxSessionCalculator"
///   output_side_packet: "SESSION:session"
///   node_options {
///     [type.googleapis.com/graphmill.OnnxSessionCalculatorOptions] { model_path: "model.onnx" }
///   }
/// }
/// node {
///   calculator: "OnnxInferenceCalculator"
///   input_side_packet: "SESSION:session"
///   input_stream: "TENSOR:x"
///   output_stream: "TENSOR:y"
/// }
/// ```
pub struct OnnxSession;

impl Calculator for OnnxSession {
    const NAME: &'static str = "OnnxSessionCalculator";
    const DOC: &'static str = "Names an ONNX model for the nodes that run it.";
    type Options = OnnxSessionOptions;
    type Ports = ();

    fn contract(c: &mut Contract, options: &OnnxSessionOptions) {
        if options.model_path.is_empty() {
            c.missing_option(MODEL, "\"model.onnx\"");
        }
        options.runtime.check(c);
        let spec = OnnxSpec::file(&options.model_path, options.runtime);
        c.output_resource::<OnnxModel>("SESSION", spec);
    }

    fn open(_: &OnnxSessionOptions, (): (), _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (): (), _: &mut Cx<'_>) -> Result<Flow> {
        Ok(Flow::Stop)
    }
}
register!(OnnxSession);
