//! `RealTimeFlowLimiterCalculator`: the older flow limiter, which counts packets.

use std::collections::BTreeSet;

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, Ins, NoOptions, Offset, OpenCx, Out, Outs, Payload,
    Policy, Result, Side, Timestamp, register,
};

/// Lets a frame in while fewer than `MAX_IN_FLIGHT` (default 1) are in flight, and drops it
/// otherwise. A packet of `FINISHED` reports that one frame is through; each frame that was let in
/// needs one. Packets of several streams with the same timestamp are one frame. `ALLOW` gets a
/// boolean at each change: `true` if the next frame would be let in.
///
/// It is here for existing graphs. In new ones use `FlowLimiterCalculator`, which also handles
/// frames that end without a packet.
///
/// ```pbtxt
/// input_stream: "frames"
/// output_stream: "results"
/// node {
///   calculator: "RealTimeFlowLimiterCalculator"
///   input_stream: "frames"
///   input_stream: "FINISHED:results"
///   input_stream_info { tag_index: "FINISHED" back_edge: true }
///   output_stream: "limited"
/// }
/// node {
///   calculator: "PassThroughCalculator"
///   input_stream: "limited"
///   output_stream: "results"
/// }
/// ```
pub struct RealTimeFlowLimiter {
    max_in_flight: i64,
    in_flight: i64,
    /// Frames that were let in and of which a stream may still have a packet.
    passing: BTreeSet<Timestamp>,
    last_dropped: Timestamp,
    /// The smallest timestamp that each stream can still have.
    bounds: Vec<Timestamp>,
    /// Number of packets sent on `ALLOW`, which serves as their timestamps.
    changes: i64,
}

/// The port handles of [`RealTimeFlowLimiter`].
#[derive(Copy, Clone, Debug)]
pub struct Ports {
    frames: Ins<dyn Payload>,
    limited: Outs<dyn Payload>,
    finished: In<dyn Payload>,
    allow: Out<bool>,
    max_in_flight: Side<i64>,
}

impl Calculator for RealTimeFlowLimiter {
    const NAME: &'static str = "RealTimeFlowLimiterCalculator";
    const DOC: &'static str =
        "Lets a limited number of frames in at once; the predecessor of `FlowLimiterCalculator`.";
    type Options = NoOptions;
    type Ports = Ports;

    fn contract(c: &mut Contract, _: &NoOptions) -> Ports {
        c.policy(Policy::Immediate);
        c.offset(Offset::Unset);
        let frames = c.inputs("");
        Ports {
            frames,
            limited: c.outputs_same_as("", frames),
            finished: c.any("FINISHED"),
            allow: c.optional_output("ALLOW"),
            max_in_flight: c.optional_side("MAX_IN_FLIGHT"),
        }
    }

    fn open(_: &NoOptions, io: Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        let max_in_flight = cx.side(io.max_in_flight).copied().unwrap_or(1);
        if max_in_flight < 1 {
            return Err(Error::invalid(format!(
                "`MAX_IN_FLIGHT` has to be at least 1, but is {max_in_flight}"
            )));
        }
        Ok(Self {
            max_in_flight,
            in_flight: 0,
            passing: BTreeSet::new(),
            last_dropped: Timestamp::UNSET,
            bounds: vec![Timestamp::UNSET; io.frames.len()],
            changes: 0,
        })
    }

    fn process(&mut self, io: Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let allowed_before = self.allows();
        if cx.packet(io.finished).is_some() {
            if self.in_flight == 0 {
                return Err(Error::precondition(
                    "a packet came on `FINISHED`, but no frame is in flight",
                ));
            }
            self.in_flight -= 1;
        }
        let ports = io.frames.iter().zip(io.limited.iter());
        for (at, (input, output)) in ports.enumerate() {
            let settled = cx.settled(input);
            match cx.take_packet(input) {
                Some(frame) if self.lets_in(frame.time) => cx.out().emit_packet(output, frame),
                Some(frame) => self.last_dropped = self.last_dropped.max(frame.time),
                None if settled >= Timestamp::MAX => cx.out().close(output),
                None => {}
            }
            if settled.is_range() {
                self.bounds[at] = self.bounds[at].max(settled.next());
                cx.out().bound_at_least(output, self.bounds[at]);
            }
        }
        if let Some(oldest) = self.bounds.iter().min() {
            self.passing = self.passing.split_off(oldest);
        }
        if allowed_before != self.allows() {
            self.changes += 1;
            cx.emit_at(io.allow, self.changes, self.allows());
        }
        Ok(Flow::Continue)
    }
}

impl RealTimeFlowLimiter {
    fn allows(&self) -> bool {
        self.in_flight < self.max_in_flight
    }

    /// Returns true if a packet passes, with its frame or as a new frame.
    fn lets_in(&mut self, time: Timestamp) -> bool {
        if self.passing.contains(&time) {
            return true;
        }
        let new = self.allows() && time > self.last_dropped;
        if new {
            self.passing.insert(time);
            self.in_flight += 1;
        }
        new
    }
}
register!(RealTimeFlowLimiter);

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    use super::RealTimeFlowLimiter;

    fn limiter() -> Harness {
        Harness::for_calculator::<RealTimeFlowLimiter>(
            r#"node { calculator: "RealTimeFlowLimiterCalculator" input_stream: "a" input_stream: "b" input_stream: "FINISHED:finished"
                 output_stream: "x" output_stream: "y" output_stream: "ALLOW:allow" }"#,
        )
    }

    #[test]
    fn frames_that_come_too_fast_are_dropped_on_all_streams() {
        let mut h = limiter();
        for time in 1..=2_i64 {
            h.push("a", time, time).push("b", time, -time);
        }
        h.push("finished", 1, ());
        h.push("a", 3, 3_i64).push("b", 3, -3_i64);
        h.expect("x", [(1, 1_i64), (3, 3)])
            .expect("y", [(1, -1_i64), (3, -3)])
            .expect("allow", [(1, false), (2, true), (3, false)]);
        h.finish();
    }

    #[test]
    fn a_frame_dropped_on_one_stream_is_dropped_on_all() {
        let mut h = limiter();
        h.push("a", 1, 1_i64)
            .push("a", 2, 2_i64)
            .push("finished", 1, ());
        h.push("b", 1, -1_i64)
            .push("b", 2, -2_i64)
            .push("b", 3, -3_i64);
        h.expect("x", [(1, 1_i64)])
            .expect("y", [(1, -1_i64), (3, -3)]);
        h.finish();
    }

    #[test]
    fn more_frames_cannot_finish_than_there_are() {
        let error = limiter().push("finished", 1, ()).error();
        assert!(error.message.contains("no frame is in flight"));
    }
}
