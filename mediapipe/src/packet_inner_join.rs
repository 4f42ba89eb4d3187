//! `PacketInnerJoinCalculator`: packets that all streams have.

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, Ins, NoOptions, OpenCx, Outs, Payload, Result, register,
};

/// Passes packets on at timestamps at which every input has one, and drops packets at all others.
/// It is meant for streams of different rates, usually with `FixedSizeInputStreamHandler`.
///
/// ```pbtxt
/// input_stream: "left"
/// input_stream: "right"
/// output_stream: "left_of_pair"
/// output_stream: "right_of_pair"
/// node {
///   calculator: "PacketInnerJoinCalculator"
///   input_stream: "left"
///   input_stream: "right"
///   output_stream: "left_of_pair"
///   output_stream: "right_of_pair"
/// }
/// ```
pub struct PacketInnerJoin;

impl Calculator for PacketInnerJoin {
    const NAME: &'static str = "PacketInnerJoinCalculator";
    const DOC: &'static str = "Passes packets on at timestamps at which every input has one.";
    type Options = NoOptions;
    type Ports = (Ins<dyn Payload>, Outs<dyn Payload>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        let inputs = c.inputs("");
        (inputs, c.outputs_same_as("", inputs))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (inputs, outputs): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if inputs.iter().all(|input| cx.packet(input).is_some()) {
            for (input, output) in inputs.iter().zip(outputs.iter()) {
                cx.forward(input, output);
            }
        }
        Ok(Flow::Continue)
    }
}
register!(PacketInnerJoin);

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    use super::PacketInnerJoin;

    #[test]
    fn only_pairs_pass() {
        let graph = r#"node { calculator: "PacketInnerJoinCalculator" input_stream: "a" input_stream: "b"
            output_stream: "x" output_stream: "y" }"#;
        let mut h = Harness::for_calculator::<PacketInnerJoin>(graph);
        for time in [1, 2, 4_i64] {
            h.push("a", time, time);
        }
        for time in [2, 3, 4_i64] {
            h.push("b", time, -time);
        }
        h.expect("x", [(2, 2_i64), (4, 4)])
            .expect("y", [(2, -2_i64), (4, -4)]);
        h.finish();
    }
}
