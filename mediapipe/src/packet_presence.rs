//! `PacketPresenceCalculator`: a test if there is a packet.

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, NoOptions, OpenCx, Out, Payload, Result, Timestamp,
    register,
};

/// Emits a boolean at each timestamp that becomes known: `true` if the input has a packet there,
/// `false` if the timestamp is settled without one.
///
/// ```pbtxt
/// input_stream: "maybe"
/// output_stream: "present"
/// node {
///   calculator: "PacketPresenceCalculator"
///   input_stream: "PACKET:maybe"
///   output_stream: "PRESENCE:present"
/// }
/// ```
pub struct PacketPresence;

impl Calculator for PacketPresence {
    const NAME: &'static str = "PacketPresenceCalculator";
    const DOC: &'static str = "Emits a boolean at each timestamp: true if the input has a packet.";
    type Options = NoOptions;
    type Ports = (In<dyn Payload>, Out<bool>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.process_timestamp_bounds();
        (c.any("PACKET"), c.output("PRESENCE"))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (packet, presence): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let present = cx.packet(packet).is_some();
        // The end of the stream is not a timestamp at which a packet is missing.
        if present || cx.time() < Timestamp::MAX {
            cx.emit(presence, present);
        }
        Ok(Flow::Continue)
    }
}
register!(PacketPresence);

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    use super::PacketPresence;

    #[test]
    fn packets_and_bounds_are_told_apart() {
        let graph = r#"node { calculator: "PacketPresenceCalculator" input_stream: "PACKET:in" output_stream: "PRESENCE:out" }"#;
        let mut harness = Harness::for_calculator::<PacketPresence>(graph);
        harness
            .push("in", 1, "x")
            .bound("in", 10)
            .push("in", 12, "y");
        harness.finish();
        harness.expect("out", [(1, true), (9, false), (12, true)]);
    }
}
