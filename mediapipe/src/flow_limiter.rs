//! `FlowLimiterCalculator`: lets in no more frames at once than the rest of the graph can work on.

use std::collections::{BTreeMap, VecDeque};

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, Ins, Offset, OpenCx, Out, Outs, Packet, Payload, Policy,
    Result, Side, Timestamp, port::PortType, register, register_payload,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of a `FlowLimiterCalculator` node. A number below zero is no limit.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FlowLimiterOptions {
    /// Maximum number of frames in flight. Default: 1. With 0 no frame is let in.
    pub max_in_flight: i32,
    /// Maximum number of further frames that wait. When there are more, the oldest are dropped.
    pub max_in_queue: i32,
    /// Microseconds, in the time line of the frames, after which a frame no longer counts as in
    /// flight. 0 means never.
    pub in_flight_timeout: i64,
}

impl Default for FlowLimiterOptions {
    fn default() -> Self {
        Self {
            max_in_flight: 1,
            max_in_queue: 0,
            in_flight_timeout: 0,
        }
    }
}

/// Lets a limited number of frames into the part of the graph that follows it, and drops frames
/// that come too fast. The first untagged stream has the frames, and further ones follow its
/// decisions: their packets are passed on from a frame that was let in up to the next frame.
/// `FINISHED`, a back edge from the end of that part, reports that a frame is through, by a packet
/// or by a bound that covers it. `ALLOW` gets a boolean for each frame: `true` if it was let in.
/// The side packet `MAX_IN_FLIGHT` replaces the option of that name. Packets of `OPTIONS`, a stream
/// or a side packet, replace all options.
///
/// ```pbtxt
/// input_stream: "frames"
/// output_stream: "results"
/// node {
///   calculator: "FlowLimiterCalculator"
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
pub struct FlowLimiter {
    options: FlowLimiterOptions,
    max_in_flight: Option<i64>,
    /// Undecided packets of each stream. The first stream has the frames.
    queues: Vec<VecDeque<Packet>>,
    in_flight: VecDeque<Timestamp>,
    /// Decisions by frame, each of which holds until the next. Packets of other streams before the
    /// first frame are let in.
    allowed: BTreeMap<Timestamp, bool>,
    /// Timestamp before which the frames are decided.
    decided: Timestamp,
}

/// The port handles of [`FlowLimiter`].
#[derive(Copy, Clone, Debug)]
pub struct Ports {
    frames: Ins<dyn Payload>,
    limited: Outs<dyn Payload>,
    finished: In<dyn Payload>,
    options: In<FlowLimiterOptions>,
    allow: Out<bool>,
    max_in_flight_side: Side<i64>,
    options_side: Side<FlowLimiterOptions>,
}

impl Calculator for FlowLimiter {
    const NAME: &'static str = "FlowLimiterCalculator";
    const DOC: &'static str =
        "Lets a limited number of frames in at once and drops those that come too fast.";
    type Options = FlowLimiterOptions;
    type Ports = Ports;

    fn contract(c: &mut Contract, _: &FlowLimiterOptions) -> Ports {
        c.policy(Policy::Immediate);
        c.process_timestamp_bounds();
        c.offset(Offset::Unset);
        let frames = c.inputs("");
        Ports {
            frames,
            limited: c.outputs_same_as("", frames),
            finished: c.any("FINISHED"),
            options: c.optional("OPTIONS"),
            allow: c.optional_output("ALLOW"),
            max_in_flight_side: c.optional_side("MAX_IN_FLIGHT"),
            options_side: c.optional_side("OPTIONS"),
        }
    }

    fn open(options: &FlowLimiterOptions, io: Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            options: cx.side(io.options_side).unwrap_or(options).clone(),
            max_in_flight: cx.side(io.max_in_flight_side).copied(),
            queues: vec![VecDeque::new(); io.frames.len()],
            in_flight: VecDeque::new(),
            allowed: BTreeMap::from([(Timestamp::UNSET, true)]),
            decided: Timestamp::PRE_STREAM,
        })
    }

    fn process(&mut self, io: Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let (Some(frames), Some(limited)) = (io.frames.get(0), io.limited.get(0)) else {
            return Ok(Flow::Stop);
        };
        if let Some(options) = cx.get(io.options) {
            self.options = options.clone();
        }
        for (queue, input) in self.queues.iter_mut().zip(io.frames.iter()) {
            queue.extend(cx.take_packet(input));
        }
        self.retire(cx.settled(io.finished), cx.settled(frames), cx.time());
        let most = self.max_in_flight;
        let most = limit(most.unwrap_or(self.options.max_in_flight.into()));
        while self.in_flight.len() < most
            && let Some(frame) = self.queues[0].pop_front()
        {
            self.in_flight.push_back(frame.time);
            self.decide(frame.time, true, io, cx);
            cx.out().emit_packet(limited, frame);
        }
        let most = limit(self.options.max_in_queue.into());
        while self.queues[0].len() > most
            && let Some(frame) = self.queues[0].pop_front()
        {
            self.decide(frame.time, false, io, cx);
        }
        if let Some(next) = self.queues[0].front() {
            self.decided = next.time;
            settle(limited, self.decided, cx);
        } else {
            self.decided = cx.settled(frames).next();
            settle(limited, self.decided, cx);
            settle(io.allow, self.decided, cx);
        }
        self.pass_others(io, cx);
        self.forget(io, cx);
        Ok(Flow::Continue)
    }
}

impl FlowLimiter {
    /// Removes the frames in flight that are through: those up to `finished`, if this call has it,
    /// and those that have timed out at `latest`, if it has that.
    fn retire(&mut self, finished: Timestamp, latest: Timestamp, now: Timestamp) {
        let timeout = self.options.in_flight_timeout;
        let timed = timeout > 0 && latest == now && latest < Timestamp::MAX;
        while let Some(&frame) = self.in_flight.front() {
            let through = finished == now && frame <= finished;
            let expired = timed && latest.value().saturating_sub(frame.value()) > timeout;
            if !through && !expired {
                break;
            }
            self.in_flight.pop_front();
        }
    }

    fn decide(&mut self, frame: Timestamp, allow: bool, io: Ports, cx: &mut Cx<'_>) {
        cx.emit_at(io.allow, frame, allow);
        self.allowed.insert(frame, allow);
    }

    /// Passes on the packets of the other streams whose frames were let in, and drops the others.
    fn pass_others(&mut self, io: Ports, cx: &mut Cx<'_>) {
        let pairs = io.frames.iter().zip(io.limited.iter());
        for (queue, (input, output)) in self.queues.iter_mut().zip(pairs).skip(1) {
            while let Some(packet) = queue.pop_front_if(|packet| packet.time < self.decided) {
                let decision = self.allowed.range(..=packet.time).next_back();
                if decision.is_some_and(|(_, allow)| *allow) {
                    cx.out().emit_packet(output, packet);
                }
            }
            let next = queue.front().map(|packet| packet.time);
            settle(output, next.unwrap_or_else(|| cx.settled(input).next()), cx);
        }
    }

    /// Drops decisions that no packet can need any more.
    fn forget(&mut self, io: Ports, cx: &Cx<'_>) {
        let next = |(queue, input): (&VecDeque<Packet>, _)| {
            let head = queue.front().map(|packet| packet.time);
            head.unwrap_or_else(|| cx.settled(input).next())
        };
        let Some(oldest) = self.queues.iter().zip(io.frames.iter()).map(next).min() else {
            return;
        };
        if let Some((&holds, _)) = self.allowed.range(..=oldest).next_back() {
            self.allowed = self.allowed.split_off(&holds);
        }
    }
}

/// Converts a number of frames to a limit. Below zero there is no limit.
fn limit(frames: i64) -> usize {
    usize::try_from(frames).unwrap_or(usize::MAX)
}

/// Moves an output's bound forward, or closes the output if nothing will come on it any more.
fn settle<T: ?Sized + PortType>(output: Out<T>, bound: Timestamp, cx: &mut Cx<'_>) {
    if bound > Timestamp::MAX {
        cx.out().close(output);
    } else {
        cx.out().bound_at_least(output, bound);
    }
}
register!(FlowLimiter);
register_payload!(FlowLimiterOptions as "flow_limiter_options");

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    use super::FlowLimiter;

    fn limiter(options: &str) -> Harness {
        Harness::for_calculator::<FlowLimiter>(&format!(
            r#"node {{ calculator: "FlowLimiterCalculator" input_stream: "in" input_stream: "more" input_stream: "FINISHED:finished"
                 output_stream: "out" output_stream: "rest" output_stream: "ALLOW:allow"
                 options {{ [mediapipe.FlowLimiterCalculatorOptions.ext] {{ {options} }} }} }}"#
        ))
    }

    #[test]
    fn frames_that_come_too_fast_are_dropped() {
        let mut h = limiter("");
        for time in 1..=3_i64 {
            h.push("in", time, time).push("more", time, -time);
        }
        h.expect("out", [(1, 1_i64)]).expect("rest", [(1, -1_i64)]);
        h.expect("allow", [(1, true), (2, false), (3, false)]);
        h.push("finished", 1, ())
            .push("in", 4, 4_i64)
            .push("more", 4, -4_i64);
        h.expect("out", [(4, 4_i64)]).expect("rest", [(4, -4_i64)]);
        h.finish();
    }

    #[test]
    fn some_frames_may_wait() {
        let mut h = limiter("max_in_queue: 1");
        for time in 1..=3_i64 {
            h.push("in", time, time);
        }
        h.expect("out", [(1, 1_i64)])
            .expect("allow", [(1, true), (2, false)]);
        h.push("finished", 1, ()).expect("out", [(3, 3_i64)]);
    }

    #[test]
    fn a_bound_finishes_frames_too() {
        let mut h = limiter("");
        h.push("in", 1, 1_i64)
            .bound("finished", 2)
            .push("in", 5, 5_i64);
        h.expect("out", [(1, 1_i64), (5, 5)]);
    }

    #[test]
    fn other_streams_follow_the_frame_at_or_before() {
        let mut h = limiter("");
        h.push("more", 1, "early").push("in", 2, 2_i64);
        h.push("more", 3, "with it").push("in", 4, 4_i64);
        h.push("more", 5, "dropped").push("in", 6, 6_i64);
        h.expect("out", [(2, 2_i64)]);
        h.expect("rest", [(1, "early"), (3, "with it")]);
        h.finish();
    }

    #[test]
    fn any_number_of_frames_may_wait() {
        let mut h = limiter("max_in_queue: -1");
        for time in 1..=3_i64 {
            h.push("in", time, time);
        }
        h.push("finished", 2, ());
        h.expect("out", [(1, 1_i64), (2, 2)]);
        h.push("finished", 3, ()).expect("out", [(3, 3_i64)]);
        h.finish();
    }

    #[test]
    fn a_frame_that_waits_is_let_in_after_the_end() {
        let mut h = limiter("max_in_queue: 1");
        h.push("in", 1, 1_i64).push("in", 2, 2_i64);
        h.close("in").close("more");
        h.expect("out", [(1, 1_i64)]);
        h.push("finished", 1, ()).expect("out", [(2, 2_i64)]);
        h.finish();
    }

    #[test]
    fn a_limit_below_zero_is_none_and_zero_lets_nothing_in() {
        for (options, passed) in [("max_in_flight: -1", 3), ("max_in_flight: 0", 0)] {
            let mut h = limiter(options);
            for time in 1..=3_i64 {
                h.push("in", time, time);
            }
            assert_eq!(h.packets("out").len(), passed, "{options}");
            h.finish();
        }
    }

    #[test]
    fn a_frame_that_never_finishes_times_out() {
        let mut h = limiter("in_flight_timeout: 100");
        for time in [1, 50, 101, 102, 150, 203_i64] {
            h.push("in", time, time);
        }
        h.expect("out", [(1, 1_i64), (102, 102), (203, 203)]);
    }
}
