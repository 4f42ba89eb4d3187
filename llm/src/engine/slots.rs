//! Who holds a place in the backend: admission into a slot, preemption, and giving cells back.

use std::cmp::Reverse;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::step::Core;
use crate::protocol::SequenceId;
use crate::sequence::Sequence;

/// A gap between slots is closed when it is so many steps old, and only for a sequence that may run for as many.
const GAP_STEPS: u64 = 4;
/// Copying that many cells takes less time than a step loses by a gap.
const CELLS_A_STEP: u32 = 256;

impl Core<'_> {
    pub(super) fn leave_queue(&self, sequence: &Sequence) {
        if !sequence.was_admitted {
            self.shared.leave_queue();
        }
    }

    /// Takes slot and cells away from a sequence.
    pub(super) fn release(&mut self, sequence: &mut Sequence) {
        if let Some(slot) = sequence.slot.take() {
            self.backend.remove(slot, 0);
            self.free_slots.push(Reverse(slot));
            self.slots_changed = self.step;
        }
        if let Some(drafter) = &mut self.drafter {
            drafter.forget(sequence.id);
        }
        self.sharing.tree.remove(sequence.id);
        self.cells.release(&mut sequence.held);
        sequence.computed = 0;
    }

    pub(super) fn move_sequences(&mut self) {
        let mut plan = std::mem::take(&mut self.plan);
        for id in &plan.preempt {
            self.preempt(*id);
        }
        let tokens: u32 = plan.work.iter().map(|work| work.tokens + work.drafts).sum();
        for id in &plan.admit {
            let index = self
                .waiting
                .binary_search_by_key(id, |sequence| sequence.id)
                .expect("only waiting sequences are admitted");
            let mut sequence = self
                .waiting
                .remove(index)
                .expect("the index was just found");
            self.leave_queue(&sequence);
            if !sequence.was_admitted {
                self.shared.measured.admitted(&sequence.moments);
            }
            sequence.last_step = self.step;
            let Reverse(slot) = self
                .free_slots
                .pop()
                .expect("no more sequences are admitted than there are slots");
            sequence.slot = Some(slot);
            let room = self.cells_usable.saturating_sub(self.cells.used() + tokens);
            self.take_over(&mut sequence, room);
            sequence.was_admitted = true;
            // Preemptions may have saved more than the plan knew of.
            for work in plan.work.iter_mut().filter(|work| work.id == *id) {
                work.tokens = work.tokens.min(sequence.row().pending());
            }
            let index = self.running.partition_point(|other| other.id < sequence.id);
            self.running.insert(index, sequence);
            self.slots_changed = self.step;
        }
        self.plan = plan;
        self.close_gap();
    }

    /// Moves the sequence in the highest slot into a free one below it, where a backend computes neighboring slots together and
    /// reads the weights once more for each gap. A gap that a new sequence may fill is left for a few steps; of several, one is
    /// closed in a step, so that no step waits for many copies.
    fn close_gap(&mut self) {
        let is_new = self.step < self.slots_changed + GAP_STEPS;
        if !self.closes_gaps || is_new {
            return;
        }
        if let Some(Reverse(free)) = self.free_slots.peek().copied()
            && let Some(last) = self.running.iter_mut().max_by_key(|last| last.slot)
            && let Some(slot) = last.slot.filter(|slot| *slot > free)
            && last.remaining() >= GAP_STEPS as u32 + last.computed / CELLS_A_STEP
        {
            let started = Instant::now();
            if let Err(error) = self.backend.relocate(slot, free) {
                tracing::warn!(%error, "the order of sequences stays as it is: the backend cannot move their cells");
                self.closes_gaps = false;
                return;
            }
            last.slot = Some(free);
            self.free_slots.pop();
            self.free_slots.push(Reverse(slot));
            self.shared.moves.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(id = %last.id, cells = last.computed, took = ?started.elapsed(), "moved");
        }
    }

    pub(super) fn preempt(&mut self, id: SequenceId) {
        let index = self
            .running_index(id)
            .expect("only running sequences are preempted");
        let sequence = self.running.remove(index);
        tracing::debug!(%id, cells = sequence.computed, "preempted");
        self.keep(&sequence);
        self.requeue(sequence);
    }

    /// Sends a sequence back to the queue without its cells.
    pub(super) fn requeue(&mut self, mut sequence: Sequence) {
        self.release(&mut sequence);
        self.enqueue(sequence);
        self.shared.preemptions.fetch_add(1, Ordering::Relaxed);
    }
}
