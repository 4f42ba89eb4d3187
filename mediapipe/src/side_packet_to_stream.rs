//! `SidePacketToStreamCalculator`: a side packet as a packet.

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, Group, In, NoOptions, OpenCx, Outs, Packet, Payload, Result,
    Side, Sides, Timestamp, register,
};

/// Tags of the outputs, with the times at which they emit. A node uses exactly one of them.
const TAGS: [(&str, When); 6] = [
    ("AT_PRESTREAM", When::At(Timestamp::PRE_STREAM)),
    ("AT_POSTSTREAM", When::At(Timestamp::POST_STREAM)),
    ("AT_ZERO", When::At(Timestamp::ZERO)),
    ("AT_TICK", When::AtTick),
    ("AT_FIRST_TICK", When::AtFirstTick),
    ("AT_TIMESTAMP", When::AtTimestamp),
];

/// Puts the values of side packets into streams. It emits them once: before or after the stream
/// (`AT_PRESTREAM`, `AT_POSTSTREAM`), at timestamp 0 (`AT_ZERO`), or at the timestamp of the side
/// packet `TIMESTAMP` (`AT_TIMESTAMP`). Or it emits them at each packet of `TICK` (`AT_TICK`), or
/// at the first one, after which the streams are closed (`AT_FIRST_TICK`). There are as many
/// outputs as side packets, all of one tag: `AT_ZERO:0` carries the first untagged side packet, and
/// so on.
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
    values: Vec<Packet>,
    /// Timestamp at which they are emitted, if it is known before the first tick.
    at: Option<Timestamp>,
}

/// The port handles of [`SidePacketToStream`].
#[derive(Copy, Clone, Debug)]
pub struct Ports {
    values: Sides<dyn Payload>,
    timestamp: Side<i64>,
    outputs: Outs<dyn Payload>,
    when: When,
}

/// Time at which values are emitted.
#[derive(Copy, Clone, Debug)]
enum When {
    At(Timestamp),
    AtTimestamp,
    AtTick,
    AtFirstTick,
}

impl Calculator for SidePacketToStream {
    const NAME: &'static str = "SidePacketToStreamCalculator";
    const DOC: &'static str = "Puts the values of side packets into streams, once or at each tick.";
    type Options = NoOptions;
    type Ports = Ports;

    fn contract(c: &mut Contract, _: &NoOptions) -> Ports {
        let values = c.sides("");
        let timestamp: Side<i64> = c.optional_side("TIMESTAMP");
        let tick: In<dyn Payload> = c.optional("TICK");
        let groups = TAGS.map(|(tag, when)| (tag, when, c.optional_outputs(tag)));
        let mut connected = groups.iter().filter(|(.., outputs)| !outputs.is_empty());
        let chosen = connected.next();
        if chosen.is_none() || connected.next().is_some() {
            c.error(format!(
                "exactly one of `{}` must be connected",
                TAGS.map(|(tag, _)| tag).join("`, `")
            ));
        }
        let &(tag, when, outputs) = chosen.unwrap_or(&groups[0]);
        if tick.is_connected() != matches!(when, When::AtTick | When::AtFirstTick) {
            c.error("`TICK` goes together with `AT_TICK` or `AT_FIRST_TICK`");
        }
        if timestamp.is_connected() != matches!(when, When::AtTimestamp) {
            c.error("`TIMESTAMP` and `AT_TIMESTAMP` go together");
        }
        let (sides, streams) = (c.count(Group::InputSides, ""), c.count(Group::Outputs, tag));
        if sides != streams {
            c.error(format!(
                "each side packet needs an output `{tag}`, but there are {sides} and {streams}"
            ));
        }
        Ports {
            values,
            timestamp,
            outputs,
            when,
        }
    }

    fn open(_: &NoOptions, io: Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        let values = io
            .values
            .iter()
            .filter_map(|side| cx.side_packet(side).cloned());
        Ok(Self {
            values: values.collect(),
            at: match io.when {
                When::At(time) => Some(time),
                When::AtTimestamp => cx.side(io.timestamp).map(|time| Timestamp::new(*time)),
                When::AtTick | When::AtFirstTick => None,
            },
        })
    }

    fn process(&mut self, io: Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let time = self.at.unwrap_or_else(|| cx.time());
        for (output, value) in io.outputs.iter().zip(&self.values) {
            cx.out().emit_packet(output, value.clone().at(time));
        }
        Ok(match io.when {
            When::AtTick => Flow::Continue,
            // Later ticks have no effect, but they are still taken, because their stream may feed
            // other nodes too.
            When::AtFirstTick => {
                io.outputs.iter().for_each(|output| cx.out().close(output));
                self.values.clear();
                Flow::Continue
            }
            When::At(_) | When::AtTimestamp => Flow::Stop,
        })
    }
}
register!(SidePacketToStream);

#[cfg(test)]
mod tests {
    use graphmill_engine::{
        Environment, Registry, Timestamp,
        testing::{Harness, check},
    };

    fn graph(ports: &str) -> String {
        format!(
            r#"node {{ calculator: "SidePacketToStreamCalculator" input_side_packet: "s" {ports} }}"#
        )
    }

    fn harness(ports: &str) -> Harness {
        Harness::global(&graph(ports)).side("s", 5_i64)
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
        let at = r#"input_side_packet: "TIMESTAMP:at" output_stream: "AT_TIMESTAMP:out""#;
        let mut harness = harness(at).side("at", 42_i64);
        harness.start().expect("out", [(42, 5_i64)]);
    }

    #[test]
    fn at_each_tick_or_the_first() {
        let mut each = harness(r#"input_stream: "TICK:tick" output_stream: "AT_TICK:out""#);
        each.push("tick", 1, ())
            .push("tick", 7, ())
            .expect("out", [(1, 5_i64), (7, 5)]);
        each.finish();
        let mut first = harness(r#"input_stream: "TICK:tick" output_stream: "AT_FIRST_TICK:out""#);
        first.push("tick", 1, ()).push("tick", 7, ());
        first.expect("out", [(1, 5_i64)]);
        first.finish();
    }

    #[test]
    fn several_at_once() {
        let ports =
            r#"input_side_packet: "t" output_stream: "AT_ZERO:0:a" output_stream: "AT_ZERO:1:b""#;
        let mut harness = harness(ports).side("t", "text");
        harness
            .start()
            .expect("a", [(0, 5_i64)])
            .expect("b", [(0, "text")]);
    }

    #[test]
    fn ports_that_do_not_go_together_are_refused() {
        for (ports, message) in [
            ("", "exactly one of"),
            (
                r#"output_stream: "AT_ZERO:a" output_stream: "AT_PRESTREAM:b""#,
                "exactly one of",
            ),
            (r#"output_stream: "AT_TICK:a""#, "goes together"),
            (r#"output_stream: "AT_TIMESTAMP:a""#, "go together"),
            (
                r#"output_stream: "AT_ZERO:0:a" output_stream: "AT_ZERO:1:b""#,
                "there are 1 and 2",
            ),
        ] {
            let found = check(&graph(ports), &Environment::new(Registry::global()));
            assert!(found.contains(message), "{ports}:\n{found}");
        }
    }
}
