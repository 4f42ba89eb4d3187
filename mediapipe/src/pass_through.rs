//! `PassThroughCalculator`: passes every input to the output of the same tag and index.

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, Ins, NoOptions, OpenCx, OutSide, OutSides, Outs, Payload,
    Result, Side, Sides, register,
};

/// Passes each input on to the output with its tag and index. Packets, timestamps and bounds are
/// unchanged. Side packets are passed on too, if there are outputs for them.
///
/// ```pbtxt
/// input_stream: "VIDEO:video"
/// input_stream: "AUDIO:audio"
/// output_stream: "VIDEO:same_video"
/// output_stream: "AUDIO:same_audio"
/// node {
///   calculator: "PassThroughCalculator"
///   input_stream: "VIDEO:video"
///   input_stream: "AUDIO:audio"
///   output_stream: "VIDEO:same_video"
///   output_stream: "AUDIO:same_audio"
/// }
/// ```
pub struct PassThrough;

/// The streams of [`PassThrough`] and its side packets, each input with its output.
type Ports = (
    (Ins<dyn Payload>, Outs<dyn Payload>),
    (Sides<dyn Payload>, OutSides<dyn Payload>),
);

impl Calculator for PassThrough {
    const NAME: &'static str = "PassThroughCalculator";
    const DOC: &'static str = "Passes each input on to the output with its tag and index.";
    type Options = NoOptions;
    type Ports = Ports;

    fn contract(c: &mut Contract, _: &NoOptions) -> Ports {
        (c.mirrored(), c.mirrored_sides())
    }

    fn open(_: &NoOptions, (_, (sides, outputs)): Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        pass_sides(sides.iter().zip(outputs.iter()), cx);
        Ok(Self)
    }

    fn process(&mut self, ((inputs, outputs), _): Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        for (input, output) in inputs.iter().zip(outputs.iter()) {
            cx.forward(input, output);
        }
        Ok(Flow::Continue)
    }
}
register!(PassThrough);

/// A side packet and the output that it is passed on to.
pub(super) type SidePair = (Side<dyn Payload>, OutSide<dyn Payload>);

/// Passes side packets on, as far as they are given.
pub(super) fn pass_sides(pairs: impl IntoIterator<Item = SidePair>, cx: &mut OpenCx<'_>) {
    for (side, output) in pairs {
        if let Some(packet) = cx.side_packet(side).cloned() {
            cx.out().side_packet(output, packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    use super::PassThrough;

    #[test]
    fn each_input_goes_to_its_own_output() {
        let graph = r#"node {
            calculator: "PassThroughCalculator"
            input_stream: "A:0:a" input_stream: "A:1:b" input_stream: "c"
            output_stream: "A:0:x" output_stream: "A:1:y" output_stream: "z"
        }"#;
        let mut harness = Harness::for_calculator::<PassThrough>(graph);
        harness
            .push("a", 0, 1_i64)
            .push("b", 0, "two")
            .push("c", 1, '3')
            .push("b", 1, "four")
            .push("a", 2, 5_i64);
        harness.finish();
        harness
            .expect("x", [(0, 1_i64), (2, 5)])
            .expect("y", [(0, "two"), (1, "four")])
            .expect("z", [(1, '3')]);
    }
}
