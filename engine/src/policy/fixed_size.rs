//! Fixed size: like the default policy, but long queues are cut to their newest packets, all at the
//! same timestamp. The node's input depends on its speed.

use crate::{
    input::{InputQueue, InputSet},
    timestamp::Timestamp,
};

use super::{InputPolicy, Readiness, default::fill, settle::SettledTime};

/// Limits of the queues, in packets.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct FixedSize {
    /// Number of packets at which a queue is cut.
    pub trigger: usize,
    /// Number of packets that remain. If it is more than `trigger`, a queue is cut only when it is
    /// longer than this.
    pub target: usize,
    /// Cuts only when every queue has reached `trigger`, and leaves `target` packets in each.
    pub min: bool,
}

pub(super) struct Truncating {
    sizes: FixedSize,
    /// Packets before this timestamp are dropped, even if they arrive later.
    kept: Timestamp,
    settled: SettledTime,
}

impl Truncating {
    pub(super) fn new(sizes: FixedSize, bounds: bool) -> Self {
        Self {
            sizes,
            kept: Timestamp::UNSET,
            settled: SettledTime::new(bounds),
        }
    }

    /// Returns the timestamp at which to cut `queue`; `None` if it is short enough.
    fn cut(&self, queue: &InputQueue) -> Option<Timestamp> {
        let allowed = if queue.len() >= self.sizes.trigger {
            self.sizes.target
        } else {
            // Below the trigger.
            queue.len()
        };
        let last_dropped = queue.times().rev().nth(allowed)?;
        Some(last_dropped.next())
    }

    /// Returns the timestamp at which to cut `queue` so that the newest `target` packets remain. It
    /// is the smallest one if the queue is empty.
    fn newest(&self, queue: &InputQueue) -> Timestamp {
        let kept = queue.times().rev().take(self.sizes.target).last();
        kept.unwrap_or(Timestamp::UNSET)
    }
}

impl InputPolicy for Truncating {
    fn readiness(&self, queues: &[InputQueue]) -> Readiness {
        self.settled.readiness(queues, 0..queues.len())
    }

    fn fill(&mut self, at: Timestamp, queues: &mut [InputQueue], set: &mut InputSet) {
        self.settled.reached(at);
        fill(at, queues, set);
    }

    fn arrived(&mut self, queues: &mut [InputQueue]) -> bool {
        let grown = |queue: &InputQueue| queue.len() >= self.sizes.trigger;
        let cut = if !self.sizes.min {
            queues.iter().filter_map(|queue| self.cut(queue)).max()
        } else if queues.iter().all(grown) {
            queues.iter().map(|queue| self.newest(queue)).min()
        } else {
            None
        };
        self.kept = cut.map_or(self.kept, |cut| self.kept.max(cut));
        for queue in queues {
            queue.drop_before(self.kept);
        }
        true
    }
}
