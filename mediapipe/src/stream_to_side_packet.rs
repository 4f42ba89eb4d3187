//! `StreamToSidePacketCalculator`: the packet of a stream as a side packet.

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, NoOptions, OpenCx, OutSide, Packet, Payload, Result,
    register,
};

/// Makes the one packet of a stream an output side packet. Nodes that take it open when the packet
/// comes, and never if the stream has none. A second packet is an error.
///
/// ```pbtxt
/// input_stream: "summary"
/// output_side_packet: "result"
/// node {
///   calculator: "StreamToSidePacketCalculator"
///   input_stream: "summary"
///   output_side_packet: "result"
/// }
/// ```
#[derive(Default)]
pub struct StreamToSidePacket {
    is_set: bool,
}

impl Calculator for StreamToSidePacket {
    const NAME: &'static str = "StreamToSidePacketCalculator";
    const DOC: &'static str = "Makes the one packet of a stream a side packet.";
    type Options = NoOptions;
    type Ports = (In<dyn Payload>, OutSide<dyn Payload>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.any(""), c.output_side(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self::default())
    }

    fn process(&mut self, (input, side): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(packet) = cx.take_packet::<dyn Payload>(input) {
            let packet: Packet = packet;
            if std::mem::replace(&mut self.is_set, true) {
                let message = format!(
                    "the packet at {} is the second one, but a side packet can be set only once",
                    packet.time
                );
                return Err(Error::precondition(message));
            }
            cx.out().side_packet(side, packet);
        }
        Ok(Flow::Continue)
    }
}
register!(StreamToSidePacket);

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    use super::StreamToSidePacket;

    fn harness() -> Harness {
        Harness::for_calculator::<StreamToSidePacket>(
            r#"node { calculator: "StreamToSidePacketCalculator" input_stream: "in" output_side_packet: "side" }"#,
        )
    }

    #[test]
    fn the_packet_becomes_a_side_packet() {
        let mut h = harness();
        h.push("in", 7, "seven");
        let side = h.handle().side_packet("side").expect("the graph has it");
        assert_eq!(side.expect("it is set").get(), Some(&"seven"));
        h.finish();
    }

    #[test]
    fn a_second_packet_is_an_error() {
        let error = harness().push("in", 1, "a").push("in", 2, "b").error();
        assert_eq!(
            error.to_string(),
            "node `StreamToSidePacketCalculator`: the packet at 2 is the second one, but a side packet can be set only once"
        );
    }
}
