//! `FlowLimiterCalculator`: no more frames at once than the rest of the graph can work on.

use std::collections::{BTreeSet, VecDeque};

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, Ins, Offset, OpenCx, Out, Outs, Packet, Payload, Policy,
    Result, Side, Timestamp, register,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// The options of [`FlowLimiter`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FlowLimiterOptions {
    /// How many frames may be on their way at once.
    pub max_in_flight: i32,
    /// How many more may wait; of more than these, the oldest are dropped.
    pub max_in_queue: i32,
    /// After how many microseconds, in the time line of the frames, a frame no longer counts as on its way; 0 is never.
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

/// Lets a limited number of frames into the part of the graph that follows it, and drops frames that come too fast. The
/// first untagged stream gives the frames, further ones follow its decisions; `FINISHED`, a back edge from the end of that
/// part, says when a frame is through: by a packet, or by a bound that covers it. `ALLOW` says of each frame whether it
/// was let in.
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
    max_in_flight: usize,
    max_in_queue: usize,
    timeout: i64,
    /// Frames that wait to be let in.
    waiting: VecDeque<Packet>,
    in_flight: VecDeque<Timestamp>,
    /// Frames that were let in, for the other streams.
    allowed: BTreeSet<Timestamp>,
    /// By other stream: packets whose frame is not decided yet.
    others: Vec<VecDeque<Packet>>,
    /// Up to where the frames are decided.
    decided: Timestamp,
}

/// The port handles of [`FlowLimiter`].
#[derive(Copy, Clone, Debug)]
pub struct Ports {
    frames: Ins<dyn Payload>,
    limited: Outs<dyn Payload>,
    finished: In<dyn Payload>,
    allow: Out<bool>,
    max_in_flight: Side<i64>,
}

impl Calculator for FlowLimiter {
    const NAME: &'static str = "FlowLimiterCalculator";
    const DOC: &'static str =
        "Lets a limited number of frames in at once and drops those that come too fast.";
    type Options = FlowLimiterOptions;
    type Ports = Ports;

    fn contract(c: &mut Contract, options: &FlowLimiterOptions) -> Ports {
        c.policy(Policy::Immediate);
        c.process_timestamp_bounds();
        c.offset(Offset::Unset);
        if options.max_in_flight < 1 || options.max_in_queue < 0 || options.in_flight_timeout < 0 {
            c.error("`max_in_flight` has to be above 0, `max_in_queue` and `in_flight_timeout` cannot be below");
        }
        let frames = c.inputs("");
        Ports {
            frames,
            limited: c.outputs_same_as("", frames),
            finished: c.any("FINISHED"),
            allow: c.optional_output("ALLOW"),
            max_in_flight: c.optional_side("MAX_IN_FLIGHT"),
        }
    }

    fn open(options: &FlowLimiterOptions, io: Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        let max_in_flight = cx
            .side(io.max_in_flight)
            .copied()
            .unwrap_or(options.max_in_flight.into());
        Ok(Self {
            max_in_flight: usize::try_from(max_in_flight).unwrap_or(1).max(1),
            max_in_queue: usize::try_from(options.max_in_queue).unwrap_or(0),
            timeout: options.in_flight_timeout,
            waiting: VecDeque::new(),
            in_flight: VecDeque::new(),
            allowed: BTreeSet::new(),
            others: vec![VecDeque::new(); io.frames.len().saturating_sub(1)],
            decided: Timestamp::UNSTARTED,
        })
    }

    fn process(&mut self, io: Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let (Some(frames), Some(limited)) = (io.frames.get(0), io.limited.get(0)) else {
            return Ok(Flow::Stop);
        };
        self.retire(cx.settled(io.finished));
        self.waiting.extend(cx.take_packet(frames));
        if self.timeout > 0 {
            let expired = |frame: &Timestamp| *frame + self.timeout < cx.time();
            while self.in_flight.front().is_some_and(expired) {
                self.in_flight.pop_front();
            }
        }
        while self.in_flight.len() < self.max_in_flight
            && let Some(frame) = self.waiting.pop_front()
        {
            cx.emit_at(io.allow, frame.time, true);
            self.in_flight.push_back(frame.time);
            self.allowed.insert(frame.time);
            cx.out().emit_packet(limited, frame);
        }
        while self.waiting.len() > self.max_in_queue
            && let Some(frame) = self.waiting.pop_front()
        {
            cx.emit_at(io.allow, frame.time, false);
        }
        self.decided = self
            .waiting
            .front()
            .map_or(cx.settled(frames), |frame| frame.time.prev());
        let bound = self
            .waiting
            .front()
            .map_or(cx.settled(frames).next(), |frame| frame.time);
        advance(limited, bound, cx);
        advance(io.allow, bound, cx);
        self.pass_others(io, cx);
        let done = (0..io.frames.len()).all(|at| {
            io.frames
                .get(at)
                .is_some_and(|input| cx.settled(input) >= Timestamp::MAX)
        });
        Ok(if done && self.waiting.is_empty() {
            Flow::Stop
        } else {
            Flow::Continue
        })
    }
}

impl FlowLimiter {
    /// Frames up to `finished` are through.
    fn retire(&mut self, finished: Timestamp) {
        while self
            .in_flight
            .front()
            .is_some_and(|&frame| frame <= finished)
        {
            self.in_flight.pop_front();
        }
    }

    /// Passes the packets of the other streams on whose frames were let in, and drops those of dropped frames.
    fn pass_others(&mut self, io: Ports, cx: &mut Cx<'_>) {
        let mut oldest = self.decided;
        for at in 1..io.frames.len() {
            let (Some(input), Some(output)) = (io.frames.get(at), io.limited.get(at)) else {
                continue;
            };
            let queue = &mut self.others[at - 1];
            queue.extend(cx.take_packet(input));
            while let Some(packet) = queue.pop_front_if(|packet| packet.time <= self.decided) {
                if self.allowed.contains(&packet.time) {
                    cx.out().emit_packet(output, packet);
                }
            }
            let known = queue
                .front()
                .map_or(cx.settled(input), |packet| packet.time.prev());
            oldest = oldest.min(known);
            advance(output, self.decided.min(known).next(), cx);
        }
        self.allowed.retain(|frame| *frame > oldest);
    }
}

/// Says that nothing before `bound` will be emitted, if that is news.
fn advance<T: ?Sized + graphmill_engine::port::PortType>(
    output: Out<T>,
    bound: Timestamp,
    cx: &mut Cx<'_>,
) {
    if bound.is_allowed_in_stream() {
        cx.out().bound_at_least(output, bound);
    }
}
register!(FlowLimiter);

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    use super::FlowLimiter;

    fn limiter(options: &str) -> Harness {
        Harness::of::<FlowLimiter>(&format!(
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
    fn a_frame_that_never_finishes_times_out() {
        let mut h = limiter("in_flight_timeout: 100");
        for time in [1, 50, 101, 102, 150, 203_i64] {
            h.push("in", time, time);
        }
        h.expect("out", [(1, 1_i64), (102, 102), (203, 203)]);
    }
}
