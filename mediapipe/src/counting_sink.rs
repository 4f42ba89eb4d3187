//! `CountingSinkCalculator`: a counter of packets.

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, Ins, NoOptions, OpenCx, OutSide, Payload, Result, register,
};

/// Counts the packets of all its inputs and gives their number as the side packet `COUNT` when the
/// inputs are closed.
///
/// ```pbtxt
/// input_stream: "packets"
/// output_side_packet: "how_many"
/// node {
///   calculator: "CountingSinkCalculator"
///   input_stream: "packets"
///   output_side_packet: "COUNT:how_many"
/// }
/// ```
pub struct CountingSink {
    packets: i64,
}

impl Calculator for CountingSink {
    const NAME: &'static str = "CountingSinkCalculator";
    const DOC: &'static str = "Counts packets and gives their number as a side packet at the end.";
    type Options = NoOptions;
    type Ports = (Ins<dyn Payload>, OutSide<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.inputs(""), c.output_side("COUNT"))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self { packets: 0 })
    }

    fn process(&mut self, (inputs, _): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let came = inputs.iter().filter(|&input| cx.packet(input).is_some());
        self.packets += came.count() as i64;
        Ok(Flow::Continue)
    }

    fn close(&mut self, (_, count): Self::Ports, cx: &mut Cx<'_>) -> Result<()> {
        cx.out().side(count, self.packets);
        Ok(())
    }
}
register!(CountingSink);

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    use super::CountingSink;

    #[test]
    fn it_counts_to_the_end() {
        let graph = r#"node { calculator: "CountingSinkCalculator" input_stream: "a" input_stream: "b" output_side_packet: "COUNT:n" }"#;
        let mut h = Harness::for_calculator::<CountingSink>(graph);
        h.push("a", 1, ())
            .push("b", 1, ())
            .push("a", 2, "x")
            .close_all();
        let count = h.handle().side_packet("n").expect("the graph has it");
        assert_eq!(count.expect("it is set").get(), Some(&3_i64));
    }
}
