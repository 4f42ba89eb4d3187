//! `BypassCalculator`: stands in for a feature that is switched off.

use std::sync::Arc;

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, Group, In, OpenCx, Out, Payload, Result, register,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Options of a `BypassCalculator` node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BypassOptions {
    /// Inputs to pass on, as `TAG` or `TAG:index`. All others are dropped.
    pub pass_input_stream: Vec<String>,
    /// Outputs that get these inputs, in the same order.
    pub pass_output_stream: Vec<String>,
}

/// Takes any inputs and drops them, apart from those that its options pass on to an output. The
/// bounds of all outputs follow the inputs. It stands in for a node with the same ports, for
/// example in a `SwitchContainer`.
///
/// ```pbtxt
/// input_stream: "frames"
/// input_stream: "hints"
/// output_stream: "same_frames"
/// output_stream: "no_faces"
/// node {
///   calculator: "BypassCalculator"
///   input_stream: "FRAMES:frames"
///   input_stream: "HINTS:hints"
///   output_stream: "FRAMES:same_frames"
///   output_stream: "FACES:no_faces"
///   options {
///     [mediapipe.BypassCalculatorOptions.ext] {
///       pass_input_stream: "FRAMES"
///       pass_output_stream: "FRAMES"
///     }
///   }
/// }
/// ```
pub struct Bypass;

/// The inputs of [`Bypass`] that are passed on, each with its output.
type PortPairs = Arc<[(In<dyn Payload>, Out<dyn Payload>)]>;

impl Calculator for Bypass {
    const NAME: &'static str = "BypassCalculator";
    const DOC: &'static str = "Drops its inputs, apart from those that its options pass on.";
    type Options = BypassOptions;
    type Ports = PortPairs;

    fn contract(c: &mut Contract, options: &BypassOptions) -> PortPairs {
        for tag in c.tags(Group::Inputs) {
            c.optional_inputs::<dyn Payload>(&tag);
        }
        for tag in c.tags(Group::Outputs) {
            c.optional_outputs::<dyn Payload>(&tag);
        }
        for tag in c.tags(Group::InputSides) {
            c.optional_sides::<dyn Payload>(&tag);
        }
        let (inputs, outputs) = (&options.pass_input_stream, &options.pass_output_stream);
        if inputs.len() != outputs.len() {
            c.error(format!(
                "`pass_input_stream` names {} streams and `pass_output_stream` {}: each input needs its output",
                inputs.len(),
                outputs.len()
            ));
        }
        let pass = |(input, output): (&String, &String)| {
            let input = c.any(input);
            (input, c.same_as(output, input))
        };
        inputs.iter().zip(outputs).map(pass).collect()
    }

    fn open(_: &BypassOptions, _: PortPairs, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, passed: PortPairs, cx: &mut Cx<'_>) -> Result<Flow> {
        for &(input, output) in &*passed {
            cx.forward(input, output);
        }
        Ok(Flow::Continue)
    }
}
register!(Bypass);

#[cfg(test)]
mod tests {
    use graphmill_engine::{
        Environment, Registry, Timestamp,
        testing::{Harness, check},
    };

    use super::Bypass;

    fn graph(options: &str) -> String {
        format!(
            r#"node {{ calculator: "BypassCalculator" input_stream: "A:a" input_stream: "B:0:b" input_stream: "B:1:c"
                 output_stream: "X:x" output_stream: "Y:y"
                 options {{ [mediapipe.BypassCalculatorOptions.ext] {{ {options} }} }} }}"#
        )
    }

    #[test]
    fn some_streams_pass_and_all_bounds_move() {
        let text = graph(r#"pass_input_stream: "B:1" pass_output_stream: "Y""#);
        let mut h = Harness::for_calculator::<Bypass>(&text);
        h.push("a", 1, 1_i64).push("b", 1, "no").push("c", 1, "yes");
        h.expect_nothing("x").expect("y", [(1, "yes")]);
        assert_eq!(h.bounds("x"), [Timestamp::new(1)]);
        h.finish();
    }

    #[test]
    fn wrong_names_are_found() {
        let environment = Environment::new(Registry::new().with::<Bypass>());
        let text = graph(r#"pass_input_stream: "C" pass_output_stream: "Y""#);
        assert!(check(&text, &environment).contains("needs the input stream `C`"));
        let text = graph(r#"pass_input_stream: "A""#);
        assert!(check(&text, &environment).contains("each input needs its output"));
    }
}
