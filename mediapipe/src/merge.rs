//! `MergeCalculator`: the first input that has a packet.

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, Ins, NoOptions, OpenCx, Out, Payload, Result, register,
};

/// Joins streams into one. At each timestamp, once all inputs are settled at it, it passes on the
/// packet of the first input that has one and drops the others.
///
/// ```pbtxt
/// input_stream: "first"
/// input_stream: "second"
/// output_stream: "merged"
/// node {
///   calculator: "MergeCalculator"
///   input_stream: "first"
///   input_stream: "second"
///   output_stream: "merged"
/// }
/// ```
pub struct Merge;

impl Calculator for Merge {
    const NAME: &'static str = "MergeCalculator";
    const DOC: &'static str =
        "Passes on, at each timestamp, the packet of the first input that has one.";
    type Options = NoOptions;
    type Ports = (Ins<dyn Payload>, Out<dyn Payload>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.inputs(""), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (inputs, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(input) = inputs.iter().find(|&input| cx.packet(input).is_some()) {
            cx.forward(input, output);
        }
        Ok(Flow::Continue)
    }
}
register!(Merge);

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    use super::Merge;

    #[test]
    fn the_first_input_wins() {
        let graph = r#"node { calculator: "MergeCalculator" input_stream: "a" input_stream: "b" output_stream: "out" }"#;
        let mut harness = Harness::for_calculator::<Merge>(graph);
        harness.push("b", 1, "b1").expect_nothing("out");
        harness.push("a", 2, "a2").expect("out", [(1, "b1")]);
        harness.push("b", 2, "b2").expect("out", [(2, "a2")]);
        harness.finish();
    }
}
