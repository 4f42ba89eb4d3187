//! `MakePairCalculator`: two packets as one.

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, NoOptions, OpenCx, Out, Packet, Payload, Result, register,
};

/// What `MakePairCalculator` emits: the packets of its two inputs at one timestamp, each as it
/// came, if it came.
pub type Pair = (Option<Packet>, Option<Packet>);

/// Emits the packets that its two inputs have at a timestamp as one [`Pair`], also if one of them
/// has none.
///
/// ```pbtxt
/// input_stream: "question"
/// input_stream: "answer"
/// output_stream: "both"
/// node {
///   calculator: "MakePairCalculator"
///   input_stream: "question"
///   input_stream: "answer"
///   output_stream: "both"
/// }
/// ```
pub struct MakePair;

impl Calculator for MakePair {
    const NAME: &'static str = "MakePairCalculator";
    const DOC: &'static str = "Emits the packets of two streams as pairs.";
    type Options = NoOptions;
    type Ports = (In<dyn Payload>, In<dyn Payload>, Out<Pair>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.any(""), c.any(":1"), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (first, second, pair): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let both = (cx.take_packet(first), cx.take_packet(second));
        cx.emit(pair, both);
        Ok(Flow::Continue)
    }
}
register!(MakePair);

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    use super::Pair;

    #[test]
    fn packets_of_a_timestamp_are_paired() {
        let mut h = Harness::global(
            r#"node { calculator: "MakePairCalculator" input_stream: "a" input_stream: "b" output_stream: "out" }"#,
        );
        h.push("a", 1, 7_i64).push("b", 1, "seven");
        h.push("b", 2, "eight").bound("a", 3);
        let packets = h.packets("out");
        let pairs: Vec<_> = packets
            .iter()
            .map(|packet| {
                let (first, second) = packet.get::<Pair>().expect("a pair");
                let first = first.as_ref().and_then(|packet| packet.get::<i64>());
                let second = second.as_ref().and_then(|packet| packet.get::<&str>());
                (packet.time.value(), first.copied(), second.copied())
            })
            .collect();
        assert_eq!(
            pairs,
            [(1, Some(7), Some("seven")), (2, None, Some("eight"))]
        );
    }
}
