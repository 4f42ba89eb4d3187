//! The producing ends of the streams of a session.

use crate::{
    error::{Error, Result},
    input::illegal_time,
    packet::Packet,
    plan::PlanStream,
    timestamp::Timestamp,
};

/// The producing end of a stream.
pub(super) struct StreamState {
    /// The smallest timestamp that may still be emitted.
    bound: Timestamp,
    closed: bool,
    /// Its packets are taken outside the graph, by an output or an observer.
    tapped: bool,
    /// Its packets are watched, by a watcher or for a timeline.
    watched: bool,
    packets: u64,
}

/// The first timestamp, from 0, that is free on all of the streams `of`.
pub(super) fn free_time(streams: &[StreamState], of: &[u32]) -> Timestamp {
    let of = of.iter().map(|&stream| &streams[stream as usize]);
    let bounds = of
        .filter(|stream| !stream.closed)
        .map(|stream| stream.bound);
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

    #[inline]
    pub(super) fn bound(&self) -> Timestamp {
        self.bound
    }

    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    #[inline]
    pub(super) fn is_tapped(&self) -> bool {
        self.tapped
    }

    pub(super) fn tap(&mut self) {
        self.tapped = true;
    }

    /// Whether anybody outside is to be told of its packets.
    #[inline]
    pub(super) fn is_seen(&self) -> bool {
        self.tapped | self.watched
    }

    pub(super) fn is_watched(&self) -> bool {
        self.watched
    }

    pub(super) fn watch(&mut self, watched: bool) {
        self.watched = watched;
    }

    /// How many packets it has carried.
    pub(super) fn packets(&self) -> u64 {
        self.packets
    }

    /// Moves the bound past a packet, if the stream can carry it, and gives the bound before.
    #[inline]
    pub(super) fn admit(&mut self, plan: &PlanStream, packet: &Packet) -> Result<Timestamp> {
        if self.closed {
            return Err(Error::precondition(format!(
                "a packet was sent to the closed stream `{}`",
                plan.name
            )));
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

    /// Whether the producer may move the bound of the open stream `name` to `at`.
    pub(super) fn check_bound(&self, name: &str, at: Timestamp) -> Result<()> {
        if !at.is_allowed_in_stream() && at != Timestamp::ONE_OVER_POST_STREAM {
            return Err(Error::invalid(format!(
                "`{at}` cannot be the bound of stream `{name}`"
            )));
        }
        if at < self.bound {
            return Err(Error::invalid(format!(
                "the bound of stream `{name}` cannot go back from {} to {at}",
                self.bound
            )));
        }
        Ok(())
    }

    /// Moves the bound forward. False if it is there already.
    #[inline]
    pub(super) fn raise(&mut self, bound: Timestamp) -> bool {
        let moves = bound > self.bound;
        if moves {
            self.bound = bound;
        }
        moves
    }

    /// Closes the stream, without a word to its consumers. False if it is closed already.
    pub(super) fn close(&mut self) -> bool {
        !std::mem::replace(&mut self.closed, true)
    }
}

pub(super) fn out_of_order(stream: &str, bound: Timestamp, time: Timestamp) -> Error {
    Error::invalid(format!(
        "timestamps of stream `{stream}` have to ascend: the next packet may be at {bound} or later, but came at {time}"
    ))
}

pub(super) fn alone_at_the_end(stream: &str) -> Error {
    Error::invalid(format!(
        "a packet at PostStream has to be the only one of stream `{stream}`"
    ))
}
