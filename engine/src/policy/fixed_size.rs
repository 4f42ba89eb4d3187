//! Fixed size: the default policy, but queues that grow are cut to their newest packets, all at the
//! same timestamp. What a node sees depends on how fast it is.

use crate::{
    input::{InputQueue, InputSet},
    timestamp::Timestamp,
};

use super::{InputPolicy, Readiness, default::fill, settle::Settled};

/// When queues are cut, and to what.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct FixedSize {
    /// A queue of this length is cut.
    pub trigger: usize,
    /// To this length, or, if that is more than `trigger`, not at all before it is longer than
    /// this.
    pub target: usize,
    /// Cut only when every queue has grown to `trigger`, and leave `target` packets in each.
    pub min: bool,
}

pub(super) struct Truncating {
    sizes: FixedSize,
    /// Everything before this is dropped, also if it comes late.
    kept: Timestamp,
    settled: Settled,
}

impl Truncating {
    pub(super) fn new(sizes: FixedSize, bounds: bool) -> Self {
        Self {
            sizes,
            kept: Timestamp::UNSET,
            settled: Settled::new(bounds),
        }
    }

    /// Where to cut so that `queue` by itself is short enough; none if it is.
    fn cut(&self, queue: &InputQueue) -> Option<Timestamp> {
        let allowed = if queue.len() >= self.sizes.trigger {
            self.sizes.target
        } else {
            // Shorter than the trigger.
            queue.len()
        };
        let last_dropped = queue.times().rev().nth(allowed)?;
        Some(last_dropped.next())
    }

    /// Where to cut so that `queue` keeps its newest packets, as many as wanted; before everything
    /// if it is empty.
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
