//! `PreviousLoopbackCalculator`: the result of a loop's previous round.

use std::collections::VecDeque;

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, NoOptions, Offset, OpenCx, Out, Packet, Payload, Policy,
    Result, Timestamp, register,
};

/// Brings back, at each packet of `MAIN`, the packet of `LOOP` with the timestamp of the previous
/// packet of `MAIN`: the same value at the new timestamp. The first packet gets a bound instead,
/// and so does a packet whose previous round emitted nothing. So a node that reads `MAIN`'s stream
/// and `PREV_LOOP` together works frame by frame.
///
/// ```pbtxt
/// input_stream: "frame"
/// output_stream: "result"
/// output_stream: "before"
/// node {
///   calculator: "PreviousLoopbackCalculator"
///   input_stream: "MAIN:frame"
///   input_stream: "LOOP:result"
///   input_stream_info { tag_index: "LOOP" back_edge: true }
///   output_stream: "PREV_LOOP:previous"
/// }
/// node {
///   calculator: "PassThroughCalculator"
///   input_stream: "frame"
///   input_stream: "previous"
///   output_stream: "result"
///   output_stream: "before"
/// }
/// ```
pub struct PreviousLoopback {
    /// Timestamps of `MAIN` without an answer yet.
    rounds: VecDeque<Round>,
    /// Packets of `LOOP` that a round may still need.
    looped: VecDeque<Packet>,
    main_known: Timestamp,
    loop_known: Timestamp,
    /// Timestamp of the previous packet of `MAIN`.
    before: Option<Timestamp>,
}

/// A timestamp of `MAIN` that waits for its packet of `LOOP`.
struct Round {
    time: Timestamp,
    /// Timestamp of the packet of `LOOP` that it needs; `None` for the first round, which needs
    /// none.
    wants: Option<Timestamp>,
}

impl Calculator for PreviousLoopback {
    const NAME: &'static str = "PreviousLoopbackCalculator";
    const DOC: &'static str = "Brings back the result of a loop's previous round.";
    type Options = NoOptions;
    type Ports = (In<dyn Payload>, In<dyn Payload>, Out<dyn Payload>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.policy(Policy::Immediate);
        c.process_timestamp_bounds();
        c.offset(Offset::Unset);
        let looped = c.any("LOOP");
        (c.any("MAIN"), looped, c.same_as("PREV_LOOP", looped))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            rounds: VecDeque::new(),
            looped: VecDeque::new(),
            main_known: Timestamp::UNSTARTED,
            loop_known: Timestamp::UNSTARTED,
            before: None,
        })
    }

    fn process(&mut self, (main, looped, previous): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let time = cx.settled(main);
        if time > self.main_known {
            self.main_known = time;
            let packet = cx.packet(main);
            let wants = packet.and_then(|_| self.before.replace(time));
            self.rounds.push_back(Round { time, wants });
        }
        self.loop_known = self.loop_known.max(cx.settled(looped));
        self.looped.extend(cx.take_packet(looped));

        while let Some(round) = self.rounds.front() {
            if round.wants.is_some_and(|wanted| wanted > self.loop_known) {
                break;
            }
            let wanted = round.wants.unwrap_or(Timestamp::UNSTARTED);
            let is_old = |packet: &mut Packet| packet.time < wanted;
            while self.looped.pop_front_if(is_old).is_some() {}
            match self.looped.front() {
                Some(packet) if packet.time == wanted => {
                    cx.out()
                        .emit_packet(previous, packet.clone().at(round.time));
                }
                _ if round.time < Timestamp::MAX => cx.bound(previous, round.time.next()),
                // The end: the stream is closed.
                _ => {}
            }
            self.rounds.pop_front();
        }
        if self.rounds.is_empty() && self.main_known == Timestamp::MAX {
            cx.out().close(previous);
        }
        Ok(Flow::Continue)
    }
}
register!(PreviousLoopback);

#[cfg(test)]
mod tests {
    use graphmill_engine::{Environment, Registry, testing::Harness};

    use super::PreviousLoopback;
    use crate::PassThrough;

    #[test]
    fn each_round_sees_the_one_before() {
        let graph = r#"
            input_stream: "in"
            node { calculator: "PreviousLoopbackCalculator" input_stream: "MAIN:in" input_stream: "LOOP:out"
                   input_stream_info { tag_index: "LOOP" back_edge: true } output_stream: "PREV_LOOP:previous" }
            node { calculator: "PassThroughCalculator" input_stream: "in" input_stream: "previous"
                   output_stream: "out" output_stream: "seen" }"#;
        let registry = Registry::new()
            .with::<PreviousLoopback>()
            .with::<PassThrough>();
        let mut harness = Harness::new(graph, Environment::new(registry));
        for time in [1_i64, 2, 5, 15] {
            harness.push("in", time, time);
        }
        harness
            .expect("seen", [(2, 1_i64), (5, 2), (15, 5)])
            .expect("out", [(1, 1_i64), (2, 2), (5, 5), (15, 15)]);
        harness.finish();
    }
}
