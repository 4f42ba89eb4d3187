//! What the prefix cache knows of the sequences that live in the KV cache.

use smallvec::SmallVec;

use super::{Held, Progress, ShareGroup, WORTHWHILE};
use crate::backend::Slot;
use crate::protocol::{SequenceId, Token};

/// What a sequence has in the KV cache.
#[derive(Debug, Default)]
pub(crate) struct KvCells {
    pub(super) slot: Option<Slot>,
    pub(super) computed: u32,
    pub(super) held: Held,
    stops: Stops,
}

/// Most checkpoints that are asked for at once: each ends a step, and copies a state.
const MAX_STOPS: usize = 8;

/// Numbers of tokens, in order, behind which a checkpoint is to be made; at most [`MAX_STOPS`].
pub(crate) type Stops = SmallVec<[u32; 4]>;

impl KvCells {
    pub(super) fn empty(slot: Slot, stops: Stops) -> Self {
        Self {
            slot: Some(slot),
            stops,
            ..Self::default()
        }
    }

    /// Where they are; a sequence that waits has no slot.
    pub(crate) fn slot(&self) -> Option<Slot> {
        self.slot
    }

    /// So many of the sequence's first tokens have theirs: none without a slot.
    pub(crate) fn computed(&self) -> u32 {
        self.computed
    }

    /// The backend has moved them.
    pub(crate) fn moved_to(&mut self, slot: Slot) {
        self.slot = Some(slot);
    }

    /// Asks for a checkpoint behind so many of the sequence's tokens, or a little before, where one
    /// was asked for already.
    pub(crate) fn stop_at(&mut self, at: u32) {
        let index = self.stops.partition_point(|stop| *stop <= at);
        let before = index.checked_sub(1).map(|index| self.stops[index]);
        let is_new = before.is_none_or(|before| before + WORTHWHILE <= at);
        if is_new && self.stops.len() < MAX_STOPS {
            self.stops.insert(index, at);
        }
    }

    /// All checkpoints that are asked for.
    pub(crate) fn stops(&self) -> &Stops {
        &self.stops
    }

    /// Where the next one is to be made. No step goes beyond it.
    pub(crate) fn next_stop(&self) -> Option<u32> {
        self.stops
            .iter()
            .copied()
            .find(|stop| *stop > self.computed)
    }

    /// Forgets what was asked for as far as the sequence is now. Says whether it is where one is to
    /// be made.
    pub(super) fn pass_stops(&mut self) -> bool {
        let is_there = self.stops.contains(&self.computed);
        self.stops.retain(|stop| *stop > self.computed);
        is_there
    }

    pub(super) fn forget_stops(&mut self) {
        self.stops.clear();
    }
}

/// A sequence that is about to be admitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newcomer<'a> {
    pub(crate) id: SequenceId,
    pub(crate) group: &'a ShareGroup,
    pub(crate) tokens: &'a [Token],
    /// The first tokens, whose cells may come from others.
    pub(crate) shareable: &'a [Token],
    /// Checkpoints that others wait for.
    pub(crate) stops: &'a Stops,
    /// Tokens before the last turn of its prompt.
    pub(crate) last_turn: Option<u32>,
    /// Whether it was never admitted before.
    pub(crate) is_new: bool,
}

/// The sequences that live in the KV cache.
pub(crate) trait Residents {
    /// How far one of them is; nothing for one that is gone.
    fn progress(&self, id: SequenceId) -> Progress;

    /// What one of them has.
    fn cells(&self, id: SequenceId) -> &KvCells;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_are_made_at_some_distance_and_passed_in_order() {
        let mut cells = KvCells::default();
        for at in [100, 300, 110, 116, 90] {
            cells.stop_at(at);
        }
        assert_eq!(cells.stops().as_slice(), [90, 100, 116, 300]);
        assert_eq!(cells.next_stop(), Some(90));
        cells.computed = 100;
        assert!(cells.pass_stops());
        assert_eq!(cells.next_stop(), Some(116));
        cells.computed = 200;
        assert!(!cells.pass_stops());
        assert_eq!(cells.next_stop(), Some(300));
    }
}
