//! `PacketSequencerCalculator`: packets on the time line of other streams.

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, Ins, NoOptions, Offset, OpenCx, Outs, Payload, Policy, Result,
    Timestamp, register,
};

/// Gives the packets of `INPUT` timestamps on the time line of `TICK`: a packet comes out right
/// after the newest tick, at its timestamp plus one, or after the previous packet if that is later.
/// Each tick moves the bounds of the outputs past itself, so that nodes that join the outputs with
/// other streams need not wait. A packet with the same timestamp as a tick counts as earlier than
/// that tick, and comes out right after the previous tick.
///
/// ```pbtxt
/// input_stream: "button"
/// input_stream: "frames"
/// output_stream: "button_by_frame"
/// node {
///   calculator: "PacketSequencerCalculator"
///   input_stream: "INPUT:button"
///   input_stream: "TICK:frames"
///   output_stream: "OUTPUT:button_by_frame"
/// }
/// ```
pub struct PacketSequencer {
    /// The smallest free timestamp of each output.
    bounds: Vec<Timestamp>,
}

impl Calculator for PacketSequencer {
    const NAME: &'static str = "PacketSequencerCalculator";
    const DOC: &'static str = "Gives packets timestamps on the time line of other streams.";
    type Options = NoOptions;
    type Ports = (Ins<dyn Payload>, Ins<dyn Payload>, Outs<dyn Payload>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.policy(Policy::Immediate);
        c.offset(Offset::Unset);
        let inputs = c.inputs("INPUT");
        let ticks = c.optional_inputs("TICK");
        (inputs, ticks, c.outputs_same_as("OUTPUT", inputs))
    }

    fn open(_: &NoOptions, (.., outputs): Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            bounds: vec![Timestamp::PRE_STREAM; outputs.len()],
        })
    }

    fn process(&mut self, (inputs, ticks, outputs): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let now = cx.time();
        let ticked = ticks.iter().any(|tick| cx.settled(tick) == now);
        let tick = if ticked { now } else { Timestamp::MIN };
        let ports = inputs.iter().zip(outputs.iter());
        for ((input, output), bound) in ports.zip(&mut self.bounds) {
            if let Some(packet) = cx.take_packet(input) {
                let time = Timestamp::MIN.max(*bound);
                cx.out().emit_packet(output, packet.at(time));
                *bound = time.next();
            }
            if tick >= *bound {
                *bound = tick.next();
                cx.out().bound_at_least(output, *bound);
            }
        }
        Ok(Flow::Continue)
    }
}
register!(PacketSequencer);

#[cfg(test)]
mod tests {
    use graphmill_engine::{Timestamp, testing::Harness};

    use super::PacketSequencer;

    fn sequencer() -> Harness {
        Harness::for_calculator::<PacketSequencer>(
            r#"node { calculator: "PacketSequencerCalculator" input_stream: "INPUT:in" input_stream: "TICK:0:tick"
                 input_stream: "TICK:1:tock" output_stream: "OUTPUT:out" }"#,
        )
    }

    #[test]
    fn packets_follow_the_newest_tick() {
        let mut h = sequencer();
        h.push("in", 1, "first")
            .push("tick", 10, ())
            .push("in", 2, "second");
        h.push("tock", 20, ())
            .push("in", 3, "third")
            .push("in", 4, "fourth");
        h.expect(
            "out",
            [
                (Timestamp::MIN, "first"),
                (11.into(), "second"),
                (21.into(), "third"),
                (22.into(), "fourth"),
            ],
        );
        assert_eq!(h.bounds("out"), [10, 20].map(Timestamp::new));
        h.finish();
    }

    #[test]
    fn an_older_tick_changes_nothing() {
        let mut h = sequencer();
        h.push("tick", 10, ())
            .push("tock", 5, ())
            .push("in", 1, "x");
        h.expect("out", [(11, "x")]).finish();
    }
}
