//! Cells of the sequences that live in the KV cache, as the prefix cache sees them.

use smallvec::SmallVec;

use super::{Progress, SequenceCells, ShareGroup, WORTHWHILE};
use crate::backend::Slot;
use crate::protocol::{SequenceId, Token};

/// The slot and cells of a sequence in the KV cache.
#[derive(Debug, Default)]
pub(crate) struct KvCells {
    pub(super) slot: Option<Slot>,
    pub(super) computed: u32,
    pub(super) held: SequenceCells,
    pub(super) stops: Stops,
}

/// Maximum number of checkpoints requested at a time. Each ends a step and copies a state.
const MAX_STOPS: usize = 8;

/// Numbers of tokens behind which a checkpoint is requested, in order; at most [`MAX_STOPS`].
pub(crate) type Stops = SmallVec<[u32; 4]>;

impl KvCells {
    /// The slot of the cells; `None` for a waiting sequence.
    pub(crate) fn slot(&self) -> Option<Slot> {
        self.slot
    }

    /// Number of the sequence's first tokens that have cells; 0 without a slot.
    pub(crate) fn computed(&self) -> u32 {
        self.computed
    }

    /// Changes the slot after the backend has moved the cells.
    pub(crate) fn moved_to(&mut self, slot: Slot) {
        self.slot = Some(slot);
    }

    /// Requests a checkpoint behind the first `at` tokens. Does nothing if one is requested a
    /// little before.
    pub(crate) fn stop_at(&mut self, at: u32) {
        let index = self.stops.partition_point(|stop| *stop <= at);
        let before = index.checked_sub(1).map(|index| self.stops[index]);
        let is_new = before.is_none_or(|before| before + WORTHWHILE <= at);
        if is_new && self.stops.len() < MAX_STOPS {
            self.stops.insert(index, at);
        }
    }

    /// The checkpoints that are requested.
    pub(crate) fn stops(&self) -> &Stops {
        &self.stops
    }

    /// Number of tokens behind which the next checkpoint is made. No step goes beyond it.
    pub(crate) fn next_stop(&self) -> Option<u32> {
        let mut stops = self.stops.iter().copied();
        stops.find(|stop| *stop > self.computed)
    }

    /// Drops the requests up to the current position. Returns true if one is exactly there.
    pub(super) fn pass_stops(&mut self) -> bool {
        let is_there = self.stops.contains(&self.computed);
        self.stops.retain(|stop| *stop > self.computed);
        is_there
    }
}

/// A sequence that is about to be admitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newcomer<'a> {
    pub(crate) id: SequenceId,
    pub(crate) group: &'a ShareGroup,
    pub(crate) tokens: &'a [Token],
    /// The first tokens, whose cells may come from other sequences.
    pub(crate) shareable: &'a [Token],
    /// Checkpoints that other sequences wait for.
    pub(crate) stops: &'a Stops,
    /// Number of tokens before the last turn of its prompt, if known.
    pub(crate) last_turn: Option<u32>,
    /// True if it was never admitted before.
    pub(crate) is_new: bool,
}

/// The sequences that live in the KV cache.
pub(crate) trait Residents {
    /// Progress of a sequence; the default if it is gone.
    fn progress(&self, id: SequenceId) -> Progress;

    /// The cells of a sequence, which must be in the KV cache.
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
