//! The producer's side of a session's streams.

use crate::{
    error::{Error, Result},
    input::illegal_time,
    packet::Packet,
    plan::PlanStream,
    timestamp::Timestamp,
};

/// The producer's side of a stream.
pub(super) struct StreamState {
    /// Smallest timestamp that may still be emitted.
    pub(super) bound: Timestamp,
    pub(super) closed: bool,
    /// Set if an output or observer takes its packets.
    pub(super) tapped: bool,
    /// Set if a watcher or a timeline watches its packets.
    pub(super) watched: bool,
    /// Number of packets that it has carried.
    pub(super) packets: u64,
}

/// Returns the first timestamp, from 0, that is free on all of the streams `of`.
pub(super) fn free_time(streams: &[StreamState], of: &[u32]) -> Timestamp {
    let of = of.iter().map(|&stream| &streams[stream as usize]);
    let open = of.filter(|stream| !stream.closed);
    let bounds = open.map(|stream| stream.bound);
    bounds.max().unwrap_or(Timestamp::ZERO).max(Timestamp::ZERO)
}

impl StreamState {
    pub(super) fn new() -> Self {
        Self {
            bound: Timestamp::PRE_STREAM,
            closed: false,
            tapped: false,
            watched: false,
            packets: 0,
        }
    }

    /// Returns `true` if its packets must be shown outside the graph.
    #[inline]
    pub(super) fn is_seen(&self) -> bool {
        self.tapped | self.watched
    }

    /// Checks a packet and moves the bound past it. Returns the earlier bound.
    #[inline]
    pub(super) fn admit(&mut self, plan: &PlanStream, packet: &Packet) -> Result<Timestamp> {
        if self.closed {
            let message = format!("a packet was sent to the closed stream `{}`", plan.name);
            return Err(Error::precondition(message));
        }
        if !packet.time.is_allowed_in_stream() {
            return Err(illegal_time(&plan.name, packet.time));
        }
        plan.check_type(packet)?;
        let bound = self.bound;
        self.bound = bound.max(packet.time.next());
        self.packets += 1;
        Ok(bound)
    }

    /// Checks that the producer may move the bound of the open stream `name` to `at`.
    pub(super) fn check_bound(&self, name: &str, at: Timestamp) -> Result<()> {
        if !at.is_allowed_in_stream() && at != Timestamp::ONE_OVER_POST_STREAM {
            let message = format!("`{at}` is not allowed as a bound of stream `{name}`");
            return Err(Error::invalid(message));
        }
        if at < self.bound {
            let bound = self.bound;
            return Err(Error::invalid(format!(
                "the bound of stream `{name}` cannot go back from {bound} to {at}"
            )));
        }
        Ok(())
    }

    /// Moves the bound forward. Returns `false` if it is there already.
    #[inline]
    pub(super) fn raise(&mut self, bound: Timestamp) -> bool {
        let moves = bound > self.bound;
        if moves {
            self.bound = bound;
        }
        moves
    }

    /// Closes the stream without informing its consumers. Returns `false` if it is closed already.
    pub(super) fn close(&mut self) -> bool {
        !std::mem::replace(&mut self.closed, true)
    }
}

pub(super) fn out_of_order(stream: &str, bound: Timestamp, time: Timestamp) -> Error {
    Error::invalid(format!(
        "timestamps of stream `{stream}` must ascend: expected {bound} or later, found {time}"
    ))
}

pub(super) fn alone_at_the_end(stream: &str) -> Error {
    Error::invalid(format!(
        "a packet at PostStream must be the only packet of stream `{stream}`"
    ))
}
