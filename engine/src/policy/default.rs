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

/// Delivers settled timestamps without packets as well.
pub(super) struct WithBounds(SettledTime);

impl Default for WithBounds {
    fn default() -> Self {
        Self(SettledTime::new(true))
    }
}

impl InputPolicy for WithBounds {
    fn readiness(&self, queues: &[InputQueue]) -> Readiness {
        self.0.readiness(queues, 0..queues.len())
    }

    fn fill(&mut self, at: Timestamp, queues: &mut [InputQueue], set: &mut InputSet) {
        self.0.reached(at);
        fill(at, queues, set);
    }
}

/// Takes the packets that the queues have at `at`.
pub(super) fn fill(at: Timestamp, queues: &mut [InputQueue], set: &mut InputSet) {
    for (input, queue) in queues.iter_mut().enumerate() {
        set.fill(input, queue, at);
    }
}
