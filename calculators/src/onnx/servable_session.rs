//! `OpenVINOModelServerSessionCalculator`: names the model of a side packet, in graphs of OpenVINO
//! Model Server.

use graphmill_engine::{Calculator, Contract, Cx, Flow, OpenCx, Result, register};
use schemars::JsonSchema;
use serde::Deserialize;

use super::OnnxModel;
use super::file::{ModelPlace, OnnxSpec, SERVABLE};
use super::runtime::Runtime;

/// Options of an `OpenVINOModelServerSessionCalculator` node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServableSessionOptions {
    /// Folder of the model, relative to the graph's folder: `resnet` for `resnet/1/model.onnx`.
    /// Required.
    pub servable_name: String,
    /// Version of the model: a number, which is the name of a folder in that folder. Empty or 0 is
    /// the highest version.
    pub servable_version: String,
    /// Library that computes the model. OVMS has no such option.
    pub runtime: Runtime,
    /// Configuration of a server that OVMS starts in the node. Not supported: models are found
    /// beside the graph.
    pub server_config: String,
    /// Address of another server to ask. Not supported: models run in this process.
    pub service_url: String,
}

/// Names the model of a side packet as `OnnxSessionCalculator` does, for graphs of OpenVINO Model
/// Server. There, the name is that of a model in `config.json`. Here, it is a folder beside the
/// graph with the same layout: a folder with a `.onnx` file for each version. OpenVINO's own format
/// (`.xml`) is not supported.
///
/// ```pbtxt
/// input_stream: "in"
/// output_stream: "out"
/// node {
///   calculator: "OpenVINOModelServerSessionCalculator"
///   output_side_packet: "SESSION:session"
///   node_options {
///     [type.googleapis.com/mediapipe.OpenVINOModelServerSessionCalculatorOptions] {
///       servable_name: "resnet"
///       servable_version: "1"
///     }
///   }
/// }
/// node {
///   calculator: "OpenVINOInferenceCalculator"
///   input_side_packet: "SESSION:session"
///   input_stream: "OVTENSOR:in"
///   output_stream: "OVTENSOR:out"
///   node_options {
///     [type.googleapis.com/mediapipe.OpenVINOInferenceCalculatorOptions] {
///       tag_to_input_tensor_names { key: "OVTENSOR" value: "data" }
///       tag_to_output_tensor_names { key: "OVTENSOR" value: "prob" }
///     }
///   }
/// }
/// ```
pub struct ServableSession;

impl Calculator for ServableSession {
    const NAME: &'static str = "OpenVINOModelServerSessionCalculator";
    const DOC: &'static str =
        "Names an ONNX model by its folder, in graphs of OpenVINO Model Server.";
    const OPTION_NAMES: &'static [&'static str] = &[
        "mediapipe.OpenVINOModelServerSessionCalculatorOptions",
        // An earlier name, which OVMS's demos still use.
        "mediapipe.ModelAPIOVMSSessionCalculatorOptions",
    ];
    type Options = ServableSessionOptions;
    type Ports = ();

    fn contract(c: &mut Contract, options: &ServableSessionOptions) {
        if options.servable_name.is_empty() {
            c.missing_option(SERVABLE, "\"resnet\"");
        }
        for (name, value) in [
            ("server_config", &options.server_config),
            ("service_url", &options.service_url),
        ] {
            if !value.is_empty() {
                let message = format!(
                    "`{name}` is not supported: the model is a folder beside the graph, which `servable_name` names"
                );
                c.option_error(name, message);
            }
        }
        let version = match options.servable_version.as_str() {
            "" => Some(0),
            number => number.parse().ok(),
        };
        if version.is_none() {
            c.option_error("servable_version", "expected a number");
        }
        options.runtime.check(c);
        let spec = OnnxSpec {
            place: ModelPlace::Servable {
                name: options.servable_name.clone(),
                version: version.unwrap_or(0),
            },
            runtime: options.runtime,
        };
        c.output_resource::<OnnxModel>("SESSION", spec);
    }

    fn open(_: &ServableSessionOptions, (): (), _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (): (), _: &mut Cx<'_>) -> Result<Flow> {
        Ok(Flow::Stop)
    }
}
register!(ServableSession);
