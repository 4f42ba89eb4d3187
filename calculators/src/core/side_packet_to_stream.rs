//! `SidePacketToStreamCalculator`: a side packet as a packet.

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, NoOptions, OpenCx, Out, Packet, Payload, Result, Side,
    Timestamp, register,
};

/// Puts the value of a side packet into a stream: once before or after the stream or at timestamp 0, or at each packet of
/// `TICK`. Exactly one of the outputs `AT_PRESTREAM`, `AT_POSTSTREAM`, `AT_ZERO`, `AT_TICK` is connected; `AT_TICK` comes
/// with `TICK`.
///
/// ```pbtxt
/// input_side_packet: "value"
/// input_stream: "tick"
/// output_stream: "values"
/// node {
///   calculator: "SidePacketToStreamCalculator"
///   input_side_packet: "value"
///   input_stream: "TICK:tick"
///   output_stream: "AT_TICK:values"
/// }
/// ```
pub struct SidePacketToStream {
    value: Option<Packet>,
}

/// The port handles of [`SidePacketToStream`].
#[derive(Copy, Clone, Debug)]
pub struct Ports {
    value: Side<dyn Payload>,
    tick: In<dyn Payload>,
    at_tick: Out<dyn Payload>,
    /// The other outputs, with their timestamps.
    at: [(Out<dyn Payload>, Timestamp); 3],
}

impl Calculator for SidePacketToStream {
    const NAME: &'static str = "SidePacketToStreamCalculator";
    const DOC: &'static str =
        "Puts the value of a side packet into a stream, once or at each tick.";
    type Options = NoOptions;
    type Ports = Ports;

    fn contract(c: &mut Contract, _: &NoOptions) -> Ports {
        let ports = Ports {
            value: c.side(""),
            tick: c.optional("TICK"),
            at_tick: c.optional_output("AT_TICK"),
            at: [
                (c.optional_output("AT_PRESTREAM"), Timestamp::PRE_STREAM),
                (c.optional_output("AT_ZERO"), Timestamp::ZERO),
                (c.optional_output("AT_POSTSTREAM"), Timestamp::POST_STREAM),
            ],
        };
        let once = ports
            .at
            .iter()
            .filter(|(output, _)| output.is_connected())
            .count();
        if once + usize::from(ports.at_tick.is_connected()) != 1 {
            c.error("exactly one of `AT_PRESTREAM`, `AT_POSTSTREAM`, `AT_ZERO` and `AT_TICK` has to be connected");
        }
        if ports.tick.is_connected() != ports.at_tick.is_connected() {
            c.error("`TICK` and `AT_TICK` go together");
        }
        ports
    }

    fn open(_: &NoOptions, io: Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            value: cx.side_packet(io.value).cloned(),
        })
    }

    fn process(&mut self, io: Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let Some(value) = self.value.clone() else {
            return Ok(Flow::Stop);
        };
        if io.tick.is_connected() {
            let time = cx.time();
            cx.out().emit_packet(io.at_tick, value.at(time));
            return Ok(Flow::Continue);
        }
        for (output, time) in io.at {
            cx.out().emit_packet(output, value.clone().at(time));
        }
        Ok(Flow::Stop)
    }
}
register!(SidePacketToStream);

#[cfg(test)]
mod tests {
    use graphmill_engine::{Timestamp, testing::Harness};

    use super::SidePacketToStream;

    fn harness(ports: &str) -> Harness {
        let graph = format!(
            r#"node {{ calculator: "SidePacketToStreamCalculator" input_side_packet: "s" {ports} }}"#
        );
        Harness::of::<SidePacketToStream>(&graph).side("s", 5_i64)
    }

    #[test]
    fn once() {
        for (tag, time) in [
            ("AT_PRESTREAM", Timestamp::PRE_STREAM),
            ("AT_ZERO", Timestamp::ZERO),
            ("AT_POSTSTREAM", Timestamp::POST_STREAM),
        ] {
            let mut harness = harness(&format!(r#"output_stream: "{tag}:out""#));
            harness.start().expect("out", [(time, 5_i64)]);
            assert!(harness.ended());
        }
    }

    #[test]
    fn at_each_tick() {
        let mut harness = harness(r#"input_stream: "TICK:tick" output_stream: "AT_TICK:out""#);
        harness
            .push("tick", 1, ())
            .push("tick", 7, ())
            .expect("out", [(1, 5_i64), (7, 5)]);
        harness.finish();
    }
}
