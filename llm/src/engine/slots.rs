//! The running sequences, and their slots in the backend.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use super::delivery::Outbox;
use super::sequence::Sequence;
use crate::backend::{Backend, Capacity, KvLayout, Reuse, Slot};
use crate::cache::{KvCells, Progress, Residents};
use crate::protocol::{FinishReason, SequenceId};
use crate::schedule::RowWork;
use crate::speculate::Drafting;

/// Minimum age of a gap between slots before it is closed, in steps, and minimum number of steps
/// that the moved sequence may still run.
const GAP_STEPS: u64 = 4;
/// Number of cells that are copied in less time than a step loses by a gap.
const CELLS_A_STEP: u32 = 256;
/// Number of steps without a part of a sequence after which it is not waited for.
const PATIENCE_STEPS: u64 = 16;

/// The running sequences. Each holds a slot exactly while it is here.
pub(super) struct Slots {
    /// Running sequences in order of arrival.
    running: Vec<Sequence>,
    /// Free slots; the lowest is taken first.
    free: BinaryHeap<Reverse<Slot>>,
    /// Number of steps so far.
    step: u64,
    /// Step before which a slot was last taken or freed.
    changed: u64,
    /// True if gaps between slots cost time and the backend can close them.
    closes_gaps: bool,
}

impl Slots {
    pub(super) fn new(capacity: &Capacity) -> Self {
        Self {
            running: Vec::new(),
            free: (0..capacity.max_sequences)
                .map(|slot| Reverse(Slot(slot)))
                .collect(),
            step: 0,
            changed: 0,
            closes_gaps: capacity.layout == KvLayout::PerSequence && capacity.reuse != Reuse::Never,
        }
    }

    /// Number of the current step, or of the last one between steps.
    pub(super) fn step(&self) -> u64 {
        self.step
    }

    pub(super) fn begin_step(&mut self) {
        self.step += 1;
    }

    /// Returns the running sequences in order of arrival.
    pub(super) fn running(&self) -> &[Sequence] {
        &self.running
    }

    pub(super) fn running_mut(&mut self) -> &mut [Sequence] {
        &mut self.running
    }

    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    fn index(&self, id: SequenceId) -> Result<usize, usize> {
        self.running
            .binary_search_by_key(&id, |sequence| sequence.id)
    }

    pub(super) fn get(&self, id: SequenceId) -> Option<&Sequence> {
        self.running.get(self.index(id).ok()?)
    }

    pub(super) fn get_mut(&mut self, id: SequenceId) -> Option<&mut Sequence> {
        let index = self.index(id).ok()?;
        self.running.get_mut(index)
    }

    /// Returns the sequence of some work.
    ///
    /// # Panics
    /// If the sequence does not run.
    pub(super) fn working(&self, work: &RowWork) -> &Sequence {
        self.get(work.id).expect("only running sequences have work")
    }

    /// Returns the sequence as [`working`](Self::working) does, to change it.
    pub(super) fn working_mut(&mut self, work: &RowWork) -> &mut Sequence {
        self.get_mut(work.id)
            .expect("only running sequences have work")
    }

    /// Takes the lowest free slot.
    pub(super) fn take_slot(&mut self) -> Slot {
        let lowest = self.free.pop();
        let Reverse(slot) = lowest.expect("no more sequences are admitted than there are slots");
        self.changed = self.step;
        slot
    }

    /// Returns the slot of a sequence that has left.
    pub(super) fn free_slot(&mut self, slot: Slot) {
        self.free.push(Reverse(slot));
        self.changed = self.step;
    }

    /// Adds a sequence that has a slot.
    pub(super) fn insert(&mut self, sequence: Sequence) {
        let index = self.running.partition_point(|other| other.id < sequence.id);
        self.running.insert(index, sequence);
    }

    /// Removes a sequence, which keeps its slot.
    pub(super) fn take(&mut self, id: SequenceId) -> Option<Sequence> {
        let index = self.index(id).ok()?;
        Some(self.running.remove(index))
    }

    /// Removes the last sequence, as [`take`](Self::take) does.
    pub(super) fn pop(&mut self) -> Option<Sequence> {
        self.running.pop()
    }

    /// Ends all running sequences for this reason.
    pub(super) fn end(&mut self, finish: &FinishReason, now: Instant, outbox: &mut Outbox) {
        for sequence in self.running.drain(..) {
            outbox.end(sequence, finish.clone(), now);
        }
    }

    /// Moves the sequence in the highest slot into a free one below it, if the backend computes
    /// neighboring slots together and reads the weights once more for each gap. A gap is left for a
    /// few steps, because a new sequence may fill it. At most one gap is closed in a step, so that
    /// no step waits for many copies. Returns true if a sequence was moved.
    pub(super) fn close_gap(&mut self, backend: &mut dyn Backend) -> bool {
        let is_new = self.step < self.changed + GAP_STEPS;
        if !self.closes_gaps || is_new {
            return false;
        }
        if let Some(Reverse(free)) = self.free.peek().copied()
            && let Some(last) = self.running.iter_mut().max_by_key(|last| last.cells.slot())
            && let Some(slot) = last.cells.slot().filter(|slot| *slot > free)
            && last.remaining() >= GAP_STEPS as u32 + last.cells.computed() / CELLS_A_STEP
        {
            let started = Instant::now();
            if let Err(error) = backend.relocate(slot, free) {
                tracing::warn!(%error, "the order of sequences stays as it is: the backend cannot move their cells");
                self.closes_gaps = false;
                return false;
            }
            last.cells.moved_to(free);
            self.free.pop();
            self.free.push(Reverse(slot));
            tracing::debug!(id = %last.id, cells = last.cells.computed(), took = ?started.elapsed(), "moved");
            return true;
        }
        false
    }
}

impl Residents for Slots {
    fn progress(&self, id: SequenceId) -> Progress {
        let progress = |sequence: &Sequence| Progress {
            computed: sequence.cells.computed(),
            advances: sequence.has_credit() && self.step - sequence.last_step <= PATIENCE_STEPS,
        };
        self.get(id).map(progress).unwrap_or_default()
    }

    fn cells(&self, id: SequenceId) -> &KvCells {
        &self.get(id).expect("the donor is running").cells
    }
}
