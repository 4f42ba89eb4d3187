//! `PacketClonerCalculator`: repeats the newest packets at each tick.

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, Ins, Offset, OpenCx, Outs, Packet, Payload, Result,
    register,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Options of a `PacketClonerCalculator` node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PacketClonerOptions {
    /// Emits nothing, not even a bound, until every stream has had a packet.
    pub output_only_when_all_inputs_received: bool,
    /// Emits no packet until every stream has had one. Until then ticks only move the bounds.
    pub output_packets_only_when_all_inputs_received: bool,
}

/// Repeats the newest packet of each stream at each tick, with the timestamp of the tick. A stream
/// that has had no packet yet is left out. The tick is the stream `TICK`, or the last untagged one.
/// Its bound moves the bounds of the outputs.
///
/// ```pbtxt
/// input_stream: "settings"
/// input_stream: "frames"
/// output_stream: "settings_by_frame"
/// node {
///   calculator: "PacketClonerCalculator"
///   input_stream: "settings"
///   input_stream: "TICK:frames"
///   output_stream: "settings_by_frame"
/// }
/// ```
pub struct PacketCloner {
    newest: Vec<Option<Packet>>,
    packets_wait_for_all: bool,
    bounds_wait_for_all: bool,
}

impl Calculator for PacketCloner {
    const NAME: &'static str = "PacketClonerCalculator";
    const DOC: &'static str = "Repeats the newest packet of each stream at each tick.";
    type Options = PacketClonerOptions;
    type Ports = (Ins<dyn Payload>, In<dyn Payload>, Outs<dyn Payload>);

    fn contract(c: &mut Contract, _: &PacketClonerOptions) -> Self::Ports {
        c.process_timestamp_bounds();
        c.offset(Offset::Unset);
        let untagged = c.inputs("");
        let tagged = c.optional("TICK");
        let (tick, base) = match untagged.split_last() {
            Some(last_and_rest) if !tagged.is_connected() => last_and_rest,
            _ => (tagged, untagged),
        };
        if base.is_empty() {
            c.error("a stream to clone must be connected, beside the tick");
        }
        (base, tick, c.outputs_same_as("", base))
    }

    fn open(
        options: &PacketClonerOptions,
        (base, ..): Self::Ports,
        _: &mut OpenCx<'_>,
    ) -> Result<Self> {
        let packets_only = options.output_packets_only_when_all_inputs_received;
        Ok(Self {
            newest: vec![None; base.len()],
            packets_wait_for_all: options.output_only_when_all_inputs_received || packets_only,
            bounds_wait_for_all: options.output_only_when_all_inputs_received && !packets_only,
        })
    }

    fn process(&mut self, (base, tick, clones): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        for (newest, input) in self.newest.iter_mut().zip(base.iter()) {
            if let Some(packet) = cx.take_packet(input) {
                *newest = Some(packet);
            }
        }
        let all = self.newest.iter().all(Option::is_some);
        if let Some(time) = cx.packet(tick).map(|tick| tick.time)
            && (all || !self.packets_wait_for_all)
        {
            for (newest, clone) in self.newest.iter().zip(clones.iter()) {
                if let Some(packet) = newest {
                    cx.out().emit_packet(clone, packet.clone().at(time));
                }
            }
        }
        if cx.settled(tick) == cx.time() && (all || !self.bounds_wait_for_all) {
            let bound = cx.time().next();
            for clone in clones.iter() {
                cx.out().bound_at_least(clone, bound);
            }
        }
        Ok(Flow::Continue)
    }
}
register!(PacketCloner);

#[cfg(test)]
mod tests {
    use graphmill_engine::{Timestamp, testing::Harness};

    use super::PacketCloner;

    fn cloner(inputs: &str, options: &str) -> Harness {
        Harness::for_calculator::<PacketCloner>(&format!(
            r#"node {{ calculator: "PacketClonerCalculator" {inputs} output_stream: "x" output_stream: "y"
                 options {{ [mediapipe.PacketClonerCalculatorOptions.ext] {{ {options} }} }} }}"#
        ))
    }

    const TAGGED: &str = r#"input_stream: "TICK:tick" input_stream: "a" input_stream: "b""#;
    const LAST: &str = r#"input_stream: "a" input_stream: "b" input_stream: "tick""#;

    #[test]
    fn the_newest_packets_come_at_each_tick() {
        for inputs in [TAGGED, LAST] {
            let mut h = cloner(inputs, "");
            h.push("a", 5, "a5").bound("b", 20).bound("a", 20);
            h.push("tick", 5, ()).push("tick", 10, ());
            h.expect("x", [(5, "a5"), (10, "a5")]).expect_nothing("y");
            h.push("a", 20, "a20")
                .push("b", 20, "b20")
                .push("tick", 20, ());
            h.expect("x", [(20, "a20")]).expect("y", [(20, "b20")]);
            h.finish();
        }
    }

    #[test]
    fn a_tick_without_a_packet_moves_the_bounds() {
        let mut h = cloner(TAGGED, "");
        h.push("a", 5, "a5").push("b", 5, "b5").push("tick", 5, ());
        h.bound("a", 10).bound("b", 10).bound("tick", 10);
        h.expect("x", [(5, "a5")]);
        assert_eq!(h.bounds("x"), [Timestamp::new(9)]);
        h.finish();
    }

    #[test]
    fn all_streams_can_be_waited_for() {
        for (options, bounds) in [
            ("output_only_when_all_inputs_received: true", vec![]),
            (
                "output_packets_only_when_all_inputs_received: true",
                vec![Timestamp::new(5)],
            ),
        ] {
            let mut h = cloner(TAGGED, options);
            h.push("a", 5, "a5").bound("b", 6).push("tick", 5, ());
            h.expect_nothing("x");
            assert_eq!(h.bounds("x"), bounds);
            h.bound("a", 8).push("b", 7, "b7").push("tick", 7, ());
            h.expect("x", [(7, "a5")]).expect("y", [(7, "b7")]);
            h.finish();
        }
    }
}
