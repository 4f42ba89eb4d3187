//! Who computes what in a step: a pure function over plain numbers.
//!
//! **Order of a step.** Decodes come first (one token each), then prompt chunks in order of arrival, then admissions in order of
//! arrival, then the decodes' drafts, all under one token budget. If there are more decodes than budget, those that waited longest go first and a share of
//! the budget stays for prompts, so neither starves the other.
//!
//! **Cells.** A sequence is admitted when its tokens fit in the free cells beside what admitted prompts still need and a few
//! cells for each running sequence to grow; it holds only cells it has computed. When a running sequence needs a cell and none is
//! free, a victim gives up all of its cells and goes back to the queue in its old place, to be computed again from its tokens
//! (nothing is sampled again). Victims are sequences that sit out for lack of credit, then the youngest.
//!
//! **Why this cannot lock up.** The oldest sequence with credit is never a victim of a younger one, every other sequence can be
//! its victim, and alone it fits (the engine refuses longer ones), so it advances in every step until it ends. A sequence without
//! credit needs nothing, and its cells and its place are taken by those that do.

use crate::protocol::SequenceId;

/// Cells kept free for each running sequence to grow into before another one is admitted.
const GROWTH_CELLS: u32 = 16;
/// Steps a sequence may sit out for lack of credit before a waiting one may take its place while others run.
pub(crate) const PAUSE_GRACE_STEPS: u64 = 64;
/// The part of the token budget kept for prompts when decodes alone would fill it.
const PROMPT_SHARE: u32 = 8;

/// What does not change from step to step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) batch_tokens: u32,
    pub(crate) max_sequences: u32,
    /// Whether a prompt may be computed over several steps.
    pub(crate) split_prompts: bool,
}

/// A sequence as the scheduler sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) id: SequenceId,
    /// Tokens known: prompt and generated.
    pub(crate) tokens: u32,
    /// The first tokens that are computed already; of a waiting sequence, those it need not compute because another one has.
    pub(crate) computed: u32,
    /// Cells that become free if it is preempted: shared ones do not. Of a waiting sequence, new cells that its `computed` tokens
    /// take as soon as it is admitted.
    pub(crate) owned: u32,
    /// Waits on purpose: another sequence is computing what it begins with.
    pub(crate) deferred: bool,
    /// Tokens that may still be generated.
    pub(crate) remaining: u32,
    /// Tokens guessed to come after the known ones. A decode carries as many of them as the step has room for.
    pub(crate) drafts: u32,
    pub(crate) has_credit: bool,
    /// The step it last took part in, or began to run.
    pub(crate) last_step: u64,
}

impl Row {
    /// Tokens that are known and not computed.
    pub(crate) fn pending(&self) -> u32 {
        self.tokens - self.computed
    }

    /// Whether a waiting sequence may be admitted now.
    fn may_join(&self) -> bool {
        self.has_credit && !self.deferred
    }

    /// Drafts that a decode could use: it yields one token more than the drafts that prove right.
    fn useful_drafts(&self) -> u32 {
        self.drafts.min(self.remaining.saturating_sub(1))
    }
}

/// What is different in each step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now<'a> {
    pub(crate) step: u64,
    pub(crate) free_cells: u32,
    /// Sequences that have a slot, in order of arrival.
    pub(crate) running: &'a [Row],
    /// Sequences that wait for a slot, in order of arrival.
    pub(crate) waiting: &'a [Row],
    /// Whether the last step was kept for a whole prompt.
    pub(crate) prompt_had_turn: bool,
}

/// The scheduler's decision. Kept between steps to reuse its memory.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Running sequences that give up their cells and go back to the queue.
    pub(crate) preempt: Vec<SequenceId>,
    /// Waiting sequences that get a slot.
    pub(crate) admit: Vec<SequenceId>,
    /// The batch: how many tokens of which sequence, running or just admitted.
    pub(crate) work: Vec<Work>,
    /// Whether decodes sat out so that a whole prompt fits.
    pub(crate) prompt_turn: bool,
    state: Vec<State>,
}

/// Tokens of one sequence in the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) id: SequenceId,
    /// Known tokens to compute.
    pub(crate) tokens: u32,
    /// Drafted tokens to compute after them.
    pub(crate) drafts: u32,
}

impl Work {
    fn known(id: SequenceId, tokens: u32) -> Self {
        Self {
            id,
            tokens,
            drafts: 0,
        }
    }
}

/// What this step has decided so far about a running sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Scheduled(u32),
    Preempted,
}

/// Plans one step into `plan`.
pub(crate) fn plan_step(limits: &Limits, now: &Now<'_>, plan: &mut Plan) {
    plan_once(limits, now, plan);
    if plan.prompt_turn && plan.work.is_empty() {
        plan_once(
            limits,
            &Now {
                prompt_had_turn: true,
                ..*now
            },
            plan,
        ); // the prompt does not fit yet: decode instead
    }
}

fn plan_once(limits: &Limits, now: &Now<'_>, plan: &mut Plan) {
    plan.preempt.clear();
    plan.admit.clear();
    plan.work.clear();
    plan.prompt_turn = false;
    plan.state.clear();
    plan.state.resize(now.running.len(), State::Idle);
    let mut step = Step {
        limits,
        now,
        plan,
        free: now.free_cells,
        budget: limits.batch_tokens,
    };
    step.schedule_decodes();
    step.schedule_prompts();
    step.admit();
    step.finish();
}

struct Step<'a> {
    limits: &'a Limits,
    now: &'a Now<'a>,
    plan: &'a mut Plan,
    free: u32,
    budget: u32,
}

impl Step<'_> {
    fn schedule_decodes(&mut self) {
        let decodes = |row: &&Row| row.has_credit && row.pending() == 1;
        let mut count = self.now.running.iter().filter(decodes).count() as u32;
        let running_prompt = self
            .now
            .running
            .iter()
            .find(|row| row.has_credit && row.pending() > 1);
        let first_prompt =
            running_prompt.or_else(|| self.now.waiting.iter().find(|row| row.may_join()));
        if let Some(prompt) = first_prompt
            && count > 0
            && self.is_whole(prompt.pending())
            && prompt.pending() + count > self.budget
            && !self.now.prompt_had_turn
        {
            self.plan.prompt_turn = true;
            return;
        }
        let share = if first_prompt.is_some() {
            (self.budget / PROMPT_SHARE).max(1).min(self.budget - 1)
        } else {
            0
        };
        // With more decodes than budget, only those that waited since this step or longer take part.
        let mut oldest_turns = None;
        if count > self.budget - share {
            count = self.budget - share;
            let mut turns: Vec<_> = self
                .now
                .running
                .iter()
                .filter(decodes)
                .map(|row| (row.last_step, row.id))
                .collect();
            let (_, last, _) = turns.select_nth_unstable(count as usize - 1);
            oldest_turns = Some(*last);
        }
        for (index, row) in self.now.running.iter().enumerate() {
            if decodes(&row) && oldest_turns.is_none_or(|last| (row.last_step, row.id) <= last) {
                self.plan.state[index] = State::Scheduled(1);
                self.budget -= 1;
            }
        }
        while self.free < count {
            let youngest = self
                .plan
                .state
                .iter()
                .rposition(|state| matches!(state, State::Scheduled(_)));
            let youngest = youngest
                .expect("there are `count` scheduled decodes, and `count` is above the free cells");
            if let Some(victim) = self.victim(youngest) {
                if victim == youngest {
                    count -= 1;
                    self.budget += 1;
                }
                self.preempt(victim);
            } else {
                self.plan.state[youngest] = State::Idle; // older sequences hold all cells: it waits for them
                count -= 1;
                self.budget += 1;
            }
        }
        self.free -= count;
    }

    fn schedule_prompts(&mut self) {
        for (index, row) in self.now.running.iter().enumerate() {
            if self.budget == 0 {
                return;
            }
            if !row.has_credit || row.pending() <= 1 || self.plan.state[index] != State::Idle {
                continue;
            }
            let whole = self.is_whole(row.pending());
            if whole && row.pending() > self.budget {
                return; // the next prompt waits behind this one
            }
            let enough = if whole { row.pending() } else { 1 };
            while self.free < enough {
                let Some(victim) = self.victim(index + 1) else {
                    break;
                };
                if let State::Scheduled(tokens) = self.plan.state[victim] {
                    self.budget += tokens;
                    self.free += tokens;
                }
                self.preempt(victim);
            }
            if self.free < enough {
                return; // older sequences hold the cells
            }
            let tokens = row.pending().min(self.budget).min(self.free);
            self.plan.state[index] = State::Scheduled(tokens);
            self.budget -= tokens;
            self.free -= tokens;
        }
    }

    fn admit(&mut self) {
        if !self.plan.preempt.is_empty() {
            return; // the freed cells were needed, and the victim comes before any younger sequence
        }
        let mut sequences = self.now.running.len() as u32;
        let mut committed: u32 = 0;
        for (row, state) in self.now.running.iter().zip(&self.plan.state) {
            let scheduled = if let State::Scheduled(tokens) = state {
                *tokens
            } else {
                0
            };
            if row.has_credit {
                committed += row.pending() - scheduled + row.remaining.min(GROWTH_CELLS);
            }
        }
        for row in self.now.waiting.iter().filter(|row| row.may_join()) {
            let whole = self.is_whole(row.pending());
            if self.budget == 0 || (whole && row.pending() > self.budget) {
                return;
            }
            let needed = row.owned + row.pending() + committed;
            while self.free < needed || sequences == self.limits.max_sequences {
                let Some(victim) = self.paused_victim(needed) else {
                    return;
                };
                self.preempt(victim);
                sequences -= 1;
            }
            let tokens = row.pending().min(self.budget);
            self.plan.admit.push(row.id);
            self.plan.work.push(Work::known(row.id, tokens));
            self.budget -= tokens;
            self.free -= row.owned + tokens;
            committed += row.pending() - tokens + row.remaining.min(GROWTH_CELLS);
            sequences += 1;
        }
    }

    /// Puts the running sequences' work before that of the admitted ones. Drafts get what is left of budget and cells: they may
    /// all prove wrong.
    fn finish(&mut self) {
        let admitted = self.plan.work.len();
        for decode in [true, false] {
            for (row, state) in self.now.running.iter().zip(&self.plan.state) {
                let State::Scheduled(tokens) = *state else {
                    continue;
                };
                if decode != (row.pending() == 1) {
                    continue;
                }
                let mut work = Work::known(row.id, tokens);
                if decode {
                    work.drafts = row.useful_drafts().min(self.budget).min(self.free);
                    self.budget -= work.drafts;
                    self.free -= work.drafts;
                }
                self.plan.work.push(work);
            }
        }
        self.plan.work.rotate_left(admitted);
    }

    /// Whether that many pending tokens must be computed in one step.
    fn is_whole(&self, pending: u32) -> bool {
        !self.limits.split_prompts && pending <= self.limits.batch_tokens
    }

    /// The sequence that gives up its cells for the one before `from`: one without credit, else the youngest from there on.
    fn victim(&self, from: usize) -> Option<usize> {
        let holds_cells = |index: &usize| {
            self.plan.state[*index] != State::Preempted && self.now.running[*index].computed > 0
        };
        let youngest_first = || (0..self.now.running.len()).rev().filter(holds_cells);
        youngest_first()
            .find(|index| !self.now.running[*index].has_credit)
            .or_else(|| youngest_first().find(|index| *index >= from))
    }

    /// A sequence without credit whose place a waiting one may take, if taking all such places would give it enough cells.
    fn paused_victim(&self, needed: u32) -> Option<usize> {
        let nothing_runs = self.plan.work.is_empty()
            && !self
                .plan
                .state
                .iter()
                .any(|state| matches!(state, State::Scheduled(_)));
        let may_go = |index: &usize| {
            let row = &self.now.running[*index];
            let sat_out = self.now.step.saturating_sub(row.last_step);
            self.plan.state[*index] == State::Idle
                && !row.has_credit
                && (nothing_runs || sat_out >= PAUSE_GRACE_STEPS)
        };
        let candidates = || (0..self.now.running.len()).rev().filter(may_go);
        let obtainable: u32 = candidates()
            .map(|index| self.now.running[index].owned)
            .sum();
        if self.free + obtainable < needed {
            None
        } else {
            candidates().next()
        }
    }

    fn preempt(&mut self, index: usize) {
        self.plan.state[index] = State::Preempted;
        self.plan.preempt.push(self.now.running[index].id);
        self.free += self.now.running[index].owned;
    }
}

#[cfg(test)]
mod tests;
