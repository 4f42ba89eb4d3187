//! KV admission: selects the waiting sequences that get a slot and cells in a step, and the running
//! ones that lose theirs.

use super::step::PlanBuilder;
use super::{GROWTH_CELLS, PAUSE_GRACE_STEPS, Row, RowState, RowWork};

impl PlanBuilder<'_> {
    /// Admits a waiting sequence with its first chunk, if it fits. Returns false if it does not:
    /// then the sequences behind it wait, too.
    pub(super) fn admit(&mut self, row: &Row) -> bool {
        let tokens = self.part_of(row);
        if tokens == 0 {
            return false;
        }
        let needs = row.owned + row.pending();
        while self.free < needs + self.committed || self.sequences == self.limits.max_sequences {
            let Some(victim) = self.slot_victim(row, needs) else {
                return false;
            };
            self.withdraw(victim);
            self.preempt(victim);
            self.sequences -= 1;
        }
        self.plan.admit.push(row.id);
        self.plan.work.push(RowWork::known(row.id, tokens));
        self.plan.size.prompt_tokens += tokens;
        self.take(tokens, row.owned + tokens);
        self.committed += row.pending() - tokens + row.remaining.min(GROWTH_CELLS);
        self.sequences += 1;
        true
    }

    /// Computes the next chunk of a running prompt, if there are cells. Returns false if no other
    /// prompt may overtake it.
    pub(super) fn continue_prompt(&mut self, index: usize, row: &Row) -> bool {
        let at_once = self.at_once(row);
        while self.free < at_once.max(1) {
            let Some(victim) = self.victim(index + 1) else {
                return at_once == 0; // those before it hold the cells
            };
            self.withdraw(victim);
            self.preempt(victim);
        }
        let tokens = self.part_of(row).min(self.free);
        if tokens == 0 {
            return false;
        }
        self.plan.state[index] = RowState::Scheduled(tokens);
        self.take(tokens, tokens);
        self.committed = self.committed.saturating_sub(tokens);
        true
    }

    /// Number of free slots, plus the slots that requests without one may take from requests with
    /// several.
    pub(super) fn places_for_prompts(&self) -> u32 {
        let free = self.limits.max_sequences - self.sequences;
        let spare = || self.now.running.iter().filter(|row| row.is_spare());
        let taken_twice = spare().count() as u32;
        if taken_twice == 0 {
            return free;
        }
        let waiting = self.now.waiting.iter();
        let without =
            waiting.filter(|row| row.may_join() && spare().any(|other| row.may_replace(other)));
        let missing = (without.count() as u32).saturating_sub(free);
        free + taken_twice.min(missing)
    }

    pub(super) fn take_cells_for_decodes(&mut self, mut count: u32) {
        while self.free < count {
            let last = self
                .plan
                .state
                .iter()
                .rposition(|state| matches!(state, RowState::Scheduled(_)))
                .expect("there are `count` scheduled decodes, and `count` is above the free cells");
            if let Some(victim) = self.victim(last) {
                if victim == last {
                    count -= 1;
                    self.budget += 1;
                }
                self.preempt(victim);
            } else {
                // The sequences before it hold all cells: it waits for them.
                self.plan.state[last] = RowState::Idle;
                count -= 1;
                self.budget += 1;
            }
        }
        self.free -= count;
    }

    /// Selects the sequence that loses its cells to the one before `from`: one without credit,
    /// otherwise the last in rank from there on.
    pub(super) fn victim(&self, from: usize) -> Option<usize> {
        let holds_cells = |index: &usize| {
            self.plan.state[*index] != RowState::Preempted && self.now.running[*index].computed > 0
        };
        let last_first = || (0..self.now.running.len()).rev().filter(holds_cells);
        last_first()
            .find(|index| !self.now.running[*index].has_credit)
            .or_else(|| last_first().find(|index| *index >= from))
    }

    /// Selects the victim whose slot the waiting sequence may take, if all such slots together have
    /// enough cells for it. A victim is a sequence that lacked credit. If the owner or request of
    /// the waiting one has no slot, it is the last sequence of those that have several.
    pub(super) fn slot_victim(&self, waiting: &Row, needs: u32) -> Option<usize> {
        let nothing_runs = self.plan.work.is_empty()
            && !self
                .plan
                .state
                .iter()
                .any(|state| matches!(state, RowState::Scheduled(_)));
        let sat_out = |index: &usize| {
            let row = &self.now.running[*index];
            let steps = self.now.step.saturating_sub(row.last_step);
            self.plan.state[*index] == RowState::Idle
                && !row.has_credit
                && (nothing_runs || steps >= PAUSE_GRACE_STEPS)
        };
        let is_spare = |index: &usize| {
            let holds = self.plan.state[*index] != RowState::Preempted;
            holds && waiting.may_replace(&self.now.running[*index])
        };
        let last_first = || (0..self.now.running.len()).rev();
        let may_go = last_first().filter(|index| sat_out(index) || is_spare(index));
        let obtainable: u32 = may_go
            .map(|index| {
                let row = &self.now.running[index];
                row.owned + self.scheduled_tokens(index) + self.commitment(index)
            })
            .sum();
        if self.free + obtainable < needs + self.committed {
            return None;
        }
        last_first()
            .find(sat_out)
            .or_else(|| last_first().find(is_spare))
    }

    /// Number of cells that a running sequence will certainly need after this step.
    pub(super) fn commitment(&self, index: usize) -> u32 {
        let row = &self.now.running[index];
        if row.has_credit && self.plan.state[index] != RowState::Preempted {
            row.pending() - self.scheduled_tokens(index) + row.remaining.min(GROWTH_CELLS)
        } else {
            0
        }
    }

    /// Removes a sequence from the step, before it is preempted.
    pub(super) fn withdraw(&mut self, index: usize) {
        let tokens = self.scheduled_tokens(index);
        self.committed = self.committed.saturating_sub(self.commitment(index));
        self.budget += tokens;
        self.free += tokens;
        if self.now.running[index].pending() > 1 {
            self.chunk += tokens;
        }
    }

    pub(super) fn preempt(&mut self, index: usize) {
        self.plan.state[index] = RowState::Preempted;
        self.plan.preempt.push(self.now.running[index].id);
        self.free += self.now.running[index].owned;
    }
}
