//! The rule that decides when a set of streams is settled. Most policies use it.

use crate::{input::InputQueue, timestamp::Timestamp};

use super::Readiness;

/// Timestamp up to which calls without packets were made. `None` if only packets are delivered.
#[derive(Copy, Clone, Debug)]
pub(super) struct SettledTime(Option<Timestamp>);

impl SettledTime {
    pub(super) fn new(bounds: bool) -> Self {
        Self(bounds.then_some(Timestamp::UNSTARTED))
    }

    pub(super) fn reached(&mut self, at: Timestamp) {
        if let Some(last) = &mut self.0 {
            *last = at;
        }
    }

    pub(super) fn with_bounds(self) -> bool {
        self.0.is_some()
    }

    /// Decides whether the streams `members` of `queues`, as one set, lead to a call.
    #[inline]
    pub(super) fn readiness(
        self,
        queues: &[InputQueue],
        members: impl Iterator<Item = usize>,
    ) -> Readiness {
        // The smallest bound of streams without a packet, and the smallest timestamp of the others.
        let (mut bound, mut packet) = (Timestamp::DONE, Timestamp::DONE);
        let mut laggard = 0;
        for member in members {
            let queue = &queues[member];
            match queue.head() {
                Some(head) => packet = packet.min(head),
                None if queue.bound() < bound => (bound, laggard) = (queue.bound(), member),
                None => {}
            }
        }
        let first = bound.min(packet);
        if first >= Timestamp::ONE_OVER_POST_STREAM {
            return Readiness::Close;
        }
        let ready = match self.0 {
            None => (bound > packet).then_some(packet),
            Some(last) => {
                let settled = if packet == Timestamp::POST_STREAM && bound > packet {
                    packet
                } else {
                    bound.prev()
                };
                let at = packet.min(settled);
                (at > last).then_some(at)
            }
        };
        ready.map_or(Readiness::wait(laggard, first), Readiness::Process)
    }
}
