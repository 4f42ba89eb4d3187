//! `SequenceShiftCalculator`: packets at the timestamps of their neighbors.

use std::collections::VecDeque;

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, Offset, OpenCx, Out, Packet, Payload, Result, Side,
    Timestamp, register,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Options of a `SequenceShiftCalculator` node.
#[derive(Copy, Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SequenceShiftOptions {
    /// Number of packets by which the sequence moves. 2 gives each packet the timestamp of the
    /// second one after it, -2 that of the second one before it. Default: -1.
    pub packet_offset: i32,
    /// Settles timestamps before the first output packet as they pass. By default they are settled
    /// only when that packet comes.
    pub emit_empty_packets_before_first_packet: bool,
}

impl Default for SequenceShiftOptions {
    fn default() -> Self {
        Self {
            packet_offset: -1,
            emit_empty_packets_before_first_packet: false,
        }
    }
}

/// Moves packets along the sequence of their timestamps: packet `i` comes out at the timestamp of
/// packet `i + packet_offset`. Packets without a timestamp there are dropped: the first ones if the
/// offset is negative, the last ones if it is positive. The side packet `PACKET_OFFSET` overrides
/// the option.
///
/// ```pbtxt
/// input_stream: "frames"
/// output_stream: "previous_frames"
/// node {
///   calculator: "SequenceShiftCalculator"
///   input_stream: "frames"
///   output_stream: "previous_frames"
///   options { [mediapipe.SequenceShiftCalculatorOptions.ext] { packet_offset: 1 } }
/// }
/// ```
pub struct SequenceShift {
    offset: i64,
    empty_before_first: bool,
    /// Packets that wait for a later timestamp, with a positive offset.
    packets: VecDeque<Packet>,
    /// Timestamps that later packets will get, with a negative offset.
    times: VecDeque<Timestamp>,
}

impl Calculator for SequenceShift {
    const NAME: &'static str = "SequenceShiftCalculator";
    const DOC: &'static str = "Gives packets the timestamps of their neighbors in the sequence.";
    const OPTION_NAMES: &'static [&'static str] = &["mediapipe.SequenceShiftCalculatorOptions"];
    type Options = SequenceShiftOptions;
    type Ports = (In<dyn Payload>, Out<dyn Payload>, Side<i64>);

    fn contract(c: &mut Contract, options: &SequenceShiftOptions) -> Self::Ports {
        let input = c.any("");
        let offset: Side<i64> = c.optional_side("PACKET_OFFSET");
        if offset.is_connected() || options.packet_offset != 0 {
            c.offset(Offset::Unset);
        }
        if offset.is_connected() {
            // The offset may turn out to be 0. Then bounds pass.
            c.process_timestamp_bounds();
        }
        (input, c.same_as("", input), offset)
    }

    fn open(
        options: &SequenceShiftOptions,
        (.., offset): Self::Ports,
        cx: &mut OpenCx<'_>,
    ) -> Result<Self> {
        let given = cx.side(offset).copied();
        Ok(Self {
            offset: given.unwrap_or_else(|| options.packet_offset.into()),
            empty_before_first: options.emit_empty_packets_before_first_packet,
            packets: VecDeque::new(),
            times: VecDeque::new(),
        })
    }

    fn process(&mut self, (input, output, _): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let time = cx.time();
        let packet = cx.take_packet(input);
        let waiting = self.offset.unsigned_abs();
        if self.offset == 0 {
            if let Some(packet) = packet {
                cx.out().emit_packet(output, packet);
            }
            cx.out().bound_at_least(output, time.next());
        } else if let Some(packet) = packet {
            if self.offset > 0 {
                if self.packets.len() as u64 >= waiting
                    && let Some(earlier) = self.packets.pop_front()
                {
                    cx.out().emit_packet(output, earlier.at(time));
                } else if self.empty_before_first {
                    cx.bound(output, time.next());
                }
                self.packets.push_back(packet);
            } else {
                if self.times.len() as u64 >= waiting
                    && let Some(earlier) = self.times.pop_front()
                {
                    cx.out().emit_packet(output, packet.at(earlier));
                }
                self.times.push_back(time);
            }
        }
        Ok(Flow::Continue)
    }
}
register!(SequenceShift);

#[cfg(test)]
mod tests {
    use graphmill_engine::{Timestamp, testing::Harness};

    fn shifted(offset: i64, side: bool) -> Harness {
        let (port, option) = if side {
            (r#"input_side_packet: "PACKET_OFFSET:n""#, -7)
        } else {
            ("", offset)
        };
        let harness = Harness::global(&format!(
            r#"node {{ calculator: "SequenceShiftCalculator" input_stream: "in" output_stream: "out" {port}
               options {{ [mediapipe.SequenceShiftCalculatorOptions.ext] {{ packet_offset: {option} }} }} }}"#
        ));
        let mut harness = if side {
            harness.side("n", offset)
        } else {
            harness
        };
        for number in 0..5_i64 {
            harness.push("in", number * 10, number);
        }
        harness
    }

    #[test]
    fn packets_take_the_timestamps_of_their_neighbors() {
        for side in [false, true] {
            shifted(2, side).expect("out", [(20, 0_i64), (30, 1), (40, 2)]);
            shifted(-2, side).expect("out", [(0, 2_i64), (10, 3), (20, 4)]);
            let all = [(0, 0_i64), (10, 1), (20, 2), (30, 3), (40, 4)];
            shifted(0, side).expect("out", all);
            shifted(9, side).expect_nothing("out").finish();
        }
    }

    #[test]
    fn without_an_offset_bounds_pass() {
        for side in [false, true] {
            let mut harness = shifted(0, side);
            harness.bound("in", 100);
            assert_eq!(harness.bounds("out").last(), Some(&Timestamp::new(99)));
        }
    }

    #[test]
    fn what_comes_before_the_first_packet_can_be_settled_at_once() {
        let mut harness = Harness::global(
            r#"node { calculator: "SequenceShiftCalculator" input_stream: "in" output_stream: "out"
               options { [mediapipe.SequenceShiftCalculatorOptions.ext] { packet_offset: 1 emit_empty_packets_before_first_packet: true } } }"#,
        );
        harness.push("in", 10, 1_i64);
        assert_eq!(harness.bounds("out"), [Timestamp::new(10)]);
        harness.push("in", 20, 2_i64).expect("out", [(20, 1_i64)]);
    }
}
