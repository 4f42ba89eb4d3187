//! The default policy: all inputs form one set, delivered in the order of timestamps, each when it
//! is settled.
//!
//! It is deterministic: a node's input does not depend on the order in which packets arrive on
//! different streams.

use crate::{
    input::{InputQueue, InputSet},
    timestamp::Timestamp,
};

use super::{InputPolicy, Readiness, settle::SettledTime};

/// Delivers timestamps with at least one packet.
pub(super) struct Packets;

impl InputPolicy for Packets {
    fn readiness(&self, queues: &[InputQueue]) -> Readiness {
        SettledTime::new(false).readiness(queues, 0..queues.len())
    }

    #[inline]
    fn fill(&mut self, at: Timestamp, queues: &mut [InputQueue], set: &mut InputSet) {
        fill(at, queues, set);
    }
}

/// Variants of the default policy: one that delivers settled timestamps without packets as well,
/// and one that closes early.
pub(super) struct OneSet {
    settled: SettledTime,
    /// Set if the node closes as soon as any input is done and empty. For loops, in which the
    /// looped input cannot close before the node does.
    closes_early: bool,
}

impl OneSet {
    pub(super) fn new(bounds: bool, closes_early: bool) -> Self {
        Self {
            settled: SettledTime::new(bounds),
            closes_early,
        }
    }
}

impl InputPolicy for OneSet {
    fn readiness(&self, queues: &[InputQueue]) -> Readiness {
        if self.closes_early && queues.iter().any(InputQueue::is_done) {
            return Readiness::Close;
        }
        self.settled.readiness(queues, 0..queues.len())
    }

    fn fill(&mut self, at: Timestamp, queues: &mut [InputQueue], set: &mut InputSet) {
        self.settled.reached(at);
        fill(at, queues, set);
    }
}

/// Takes the packets that the queues have at `at`.
pub(super) fn fill(at: Timestamp, queues: &mut [InputQueue], set: &mut InputSet) {
    for (input, queue) in queues.iter_mut().enumerate() {
        set.fill(input, queue, at);
    }
}
