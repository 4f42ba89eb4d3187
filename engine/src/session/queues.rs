//! The queues of all inputs of a session, and their limits.

use std::ops::{Index, IndexMut, Range};

use crate::{
    input::InputQueue,
    plan::{Plan, PlanInput},
};

/// Queues in the order of the plan's inputs.
pub(super) struct Queues {
    /// Queues of all nodes. Those of one node are adjacent, so its policy sees them as a slice.
    all: Vec<InputQueue>,
    limits: Vec<Limit>,
    /// Number of full queues, as of their last updates.
    full: usize,
}

/// Limit of one queue; `usize::MAX` for none, as on a back edge.
struct Limit {
    packets: usize,
    full: bool,
}

impl Queues {
    pub(super) fn new(plan: &Plan) -> Self {
        let limit = |input: &PlanInput| Limit {
            packets: if input.back_edge {
                usize::MAX
            } else {
                input.limit
            },
            full: false,
        };
        Self {
            all: plan.inputs.iter().map(|_| InputQueue::default()).collect(),
            limits: plan.inputs.iter().map(limit).collect(),
            full: 0,
        }
    }

    /// Returns the queues of one node.
    #[inline]
    pub(super) fn node_queues(&self, inputs: &Range<usize>) -> &[InputQueue] {
        &self.all[inputs.clone()]
    }

    #[inline]
    pub(super) fn node_queues_mut(&mut self, inputs: &Range<usize>) -> &mut [InputQueue] {
        &mut self.all[inputs.clone()]
    }

    /// Sets the limits of the queues of a stream.
    pub(super) fn limit(&mut self, plan: &Plan, stream: u32, packets: usize) {
        for &input in &plan.streams[stream as usize].consumers {
            if !plan.inputs[input as usize].back_edge {
                self.limits[input as usize].packets = packets;
            }
        }
    }

    /// Makes room for one more packet in a full queue and returns its new limit.
    pub(super) fn raise_limit(&mut self, input: usize) -> usize {
        let limit = &mut self.limits[input].packets;
        *limit = self.all[input].len() + 1;
        *limit
    }

    /// Updates the record that a queue is full. Returns the new state if it has changed.
    #[inline]
    pub(super) fn refresh(&mut self, input: usize) -> Option<bool> {
        let limit = &mut self.limits[input];
        let now = self.all[input].len() >= limit.packets;
        let before = std::mem::replace(&mut limit.full, now);
        self.full = self.full + usize::from(now) - usize::from(before);
        (now != before).then_some(now)
    }

    /// Returns `true` if a queue was full at the last update.
    #[inline]
    pub(super) fn is_full(&self, input: usize) -> bool {
        self.limits[input].full
    }

    /// Returns the number of packets for which a queue has room.
    #[inline]
    pub(super) fn room(&self, input: usize) -> usize {
        let limit = self.limits[input].packets;
        limit.saturating_sub(self.all[input].len())
    }

    /// Returns the limit of packets in a queue; `None` for no limit.
    pub(super) fn bound(&self, input: usize) -> Option<usize> {
        let limit = self.limits[input].packets;
        (limit != usize::MAX).then_some(limit)
    }

    pub(super) fn any_full(&self) -> bool {
        self.full > 0
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
    }
}

impl Index<usize> for Queues {
    type Output = InputQueue;

    #[inline]
    fn index(&self, input: usize) -> &InputQueue {
        &self.all[input]
    }
}

impl IndexMut<usize> for Queues {
    #[inline]
    fn index_mut(&mut self, input: usize) -> &mut InputQueue {
        &mut self.all[input]
    }
}
