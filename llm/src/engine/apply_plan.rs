//! Admission and preemption: applies the plan to all parts of the engine that hold a sequence.

use super::sequence::Sequence;
use super::step::Core;
use crate::protocol::SequenceId;

impl Core<'_> {
    /// Preempts and admits as planned, and then closes gaps between slots.
    pub(super) fn move_sequences(&mut self) {
        let mut plan = std::mem::take(&mut self.plan);
        for id in &plan.preempt {
            self.preempt(*id);
        }
        let tokens: u32 = plan.work.iter().map(|work| work.tokens + work.drafts).sum();
        for id in &plan.admit {
            let pending = self.admit(*id, tokens);
            // Preemption may have saved more cells than the plan knew.
            for work in plan.work.iter_mut().filter(|work| work.id == *id) {
                work.tokens = work.tokens.min(pending);
            }
        }
        self.plan = plan;
        if self.slots.close_gap(self.backend) {
            self.shared.published().moves += 1;
        }
    }

    /// Admits a waiting sequence to a slot, with the reusable cells of its prefix. The step needs
    /// cells for `step_tokens` tokens. Returns the number of tokens that the sequence has left to
    /// compute.
    fn admit(&mut self, id: SequenceId, step_tokens: u32) -> u32 {
        let now = self.backend.now();
        let sequence = self.queue.take(id, now);
        let mut sequence = sequence.expect("only waiting sequences are admitted");
        if !sequence.was_admitted {
            let queued = sequence.queued(now).as_secs_f64();
            self.shared.measured.queue_seconds.record(queued);
        }
        let slot = self.slots.take_slot();
        let room = self.prefixes.free_cells().saturating_sub(step_tokens);
        let newcomer = sequence.newcomer();
        let cells = self
            .prefixes
            .admit(self.backend, &newcomer, slot, room, &self.slots);
        sequence.admitted(cells, self.slots.step());
        let pending = sequence.row().pending();
        self.slots.insert(sequence);
        pending
    }

    /// Frees the slot of a running sequence and returns it to the queue.
    pub(super) fn preempt(&mut self, id: SequenceId) {
        let sequence = self.slots.take(id);
        let sequence = sequence.expect("only running sequences are preempted");
        tracing::debug!(%id, cells = sequence.cells.computed(), "preempted");
        let (cells, end) = (&sequence.cells, sequence.cells.computed());
        self.prefixes.keep(self.backend, id, cells, end);
        self.requeue(sequence);
    }

    /// Returns a sequence to the queue without its cells.
    pub(super) fn requeue(&mut self, mut sequence: Sequence) {
        self.release(&mut sequence);
        sequence.moments.slot_wait.begin(self.backend.now());
        self.queue.enqueue(sequence);
        self.shared.published().preemptions += 1;
    }

    /// Frees the slot and the cells of a sequence.
    pub(super) fn release(&mut self, sequence: &mut Sequence) {
        let (id, cells) = (sequence.id, &mut sequence.cells);
        if let Some(slot) = self.prefixes.release(self.backend, id, cells) {
            self.slots.free_slot(slot);
        }
        self.drafts.forget(id);
    }

    /// Removes a sequence, wherever it is, and saves its cells for others. Returns false if there
    /// is none.
    pub(super) fn remove(&mut self, id: SequenceId) -> bool {
        let Some(mut sequence) = self.slots.take(id) else {
            return self.queue.take(id, self.backend.now()).is_some();
        };
        self.queue.has_left(sequence.owner());
        let (cells, end) = (&sequence.cells, sequence.repeatable());
        self.prefixes.keep(self.backend, id, cells, end);
        self.release(&mut sequence);
        true
    }
}
