//! Selection of the sequences that draft in a round, their cells, and the missing tokens to
//! compute.

use super::drafter::Drafter;
use super::drafting::{Drafting, ModelDraft};
use super::worth::Steps;
use crate::backend::Slot;
use crate::protocol::SequenceId;

/// Number of missing tokens that a round computes besides each sequence's last one, while their
/// price is not known.
const FIRST_CATCH_UP: u32 = 64;
/// Minimum number of missing tokens that a round computes.
const MIN_CATCH_UP: u32 = 16;
/// Maximum time for missing tokens in a round, as a fraction of the time of a step.
const CATCH_UP_SHARE: f64 = 0.5;
/// Maximum total time for missing tokens, as a fraction of the time of a sequence's remaining
/// tokens: drafts save little more.
const WORTH_CATCHING_UP: f64 = 0.25;

/// A sequence that takes part in a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// Index among the running sequences.
    pub(super) index: usize,
    pub(super) id: SequenceId,
    pub(super) slot: Slot,
    pub(super) wanted: ModelDraft,
    /// Number of tokens that the next batch computes.
    pub(super) tokens: u32,
    /// True if these are all known tokens, so that a token is drafted after them.
    pub(super) drafts: bool,
    /// True if it drafts as a trial, although that is not expected to pay.
    pub(super) is_trial: bool,
    /// Probability that all drafts so far are right.
    pub(super) chance: f32,
}

/// Expected benefit of drafts for one sequence, or for several together.
#[derive(Clone, Copy, Debug, Default)]
struct Prospect {
    sequences: u32,
    /// Sum of the chances that a token comes true.
    chances: f32,
    /// True if one of them may try drafts that are not expected to pay.
    due: bool,
    /// Microseconds for the known tokens that must be computed first.
    catching_up: f64,
}

impl Prospect {
    fn add(&mut self, other: Self) {
        self.sequences += other.sequences;
        self.chances += other.chances;
        self.due |= other.due;
        self.catching_up += other.catching_up;
    }

    fn mean(self) -> f32 {
        self.chances / self.sequences as f32
    }
}

impl Drafter<'_> {
    /// Selects the sequences that draft in this round.
    pub(super) fn take_turns(&mut self, running: &[impl Drafting], steps: &Steps) {
        self.turns.clear();
        let wanting = || {
            running
                .iter()
                .filter_map(|sequence| Some((sequence, sequence.model_draft()?)))
        };
        let count = wanting().count() as u32;
        if count == 0 || (steps.same_length && count < steps.decodes) {
            return;
        }
        for (sequence, _) in wanting() {
            self.settle(sequence);
        }
        // Sequences that must draft together try together.
        let together = steps.same_length.then(|| {
            let mut all = Prospect::default();
            wanting().for_each(|(sequence, _)| all.add(self.prospect(sequence)));
            all
        });
        self.claimed = self.states.values().map(|state| state.cells).sum();
        let price = self.price(count, steps);
        let (mut any_trial, mut granted) = (false, 0.0);
        for (index, sequence) in running.iter().enumerate() {
            let Some(mut wanted) = sequence.model_draft() else {
                continue;
            };
            let prospect = together.unwrap_or_else(|| self.prospect(sequence));
            let is_trial = prospect.mean() < price;
            if is_trial {
                if !any_trial {
                    self.trials.earn(steps.cost.for_rows(steps.decodes));
                    any_trial = true;
                }
                let affordable = prospect.catching_up + granted <= self.trials.budget();
                if !prospect.due || !affordable {
                    continue;
                }
            }
            let state = &self.states[&sequence.id()];
            let cells = (sequence.tokens().len() as u32).saturating_sub(state.first);
            let room = self.capacity.cells_per_sequence.saturating_sub(cells);
            wanted.limit = wanted.limit.min(room);
            if wanted.limit == 0 || !self.can_catch_up(sequence, steps) {
                continue;
            }
            if let Some(slot) = self.make_room(sequence, wanted.limit) {
                if is_trial && together.is_none() {
                    granted += prospect.catching_up;
                }
                self.turns.push(Turn {
                    index,
                    id: sequence.id(),
                    slot,
                    wanted,
                    tokens: 0,
                    drafts: false,
                    is_trial,
                    chance: 1.0,
                });
            }
        }
        if steps.same_length && (self.turns.len() as u32) < steps.decodes {
            self.turns.clear();
        }
        self.turns.sort_unstable_by_key(|turn| turn.slot);
        self.share_catching_up(running, steps);
    }

    /// Returns the expected benefit of drafts for a sequence.
    fn prospect(&self, sequence: &impl Drafting) -> Prospect {
        let length = sequence.tokens().len();
        let state = &self.states[&sequence.id()];
        let missing = length.saturating_sub(state.next() as usize);
        Prospect {
            sequences: 1,
            chances: state.learned.mean(),
            due: state.is_due(length),
            catching_up: self.known_token_micros() * missing as f64,
        }
    }

    /// Returns true if a sequence's text can be computed here, and the missing part is not too long
    /// for the number of its remaining tokens.
    fn can_catch_up(&self, sequence: &impl Drafting, steps: &Steps) -> bool {
        let (id, tokens) = (sequence.id(), sequence.tokens());
        let next = self.states[&id].next() as usize;
        if let Some(hidden) = &self.hidden
            && (hidden.positions(id).end as usize + 1 < tokens.len() || next >= tokens.len())
        {
            return false;
        }
        let missing = &tokens[next..];
        let takes = self.known_token_micros() * missing.len() as f64;
        let saves = WORTH_CATCHING_UP * steps.token_micros() * f64::from(sequence.remaining());
        let pays = missing.len() as u32 <= MIN_CATCH_UP || takes <= saves;
        (pays || !steps.controlled) && missing.iter().all(|token| (*token as usize) < self.n_vocab)
    }

    /// Finds a slot for the sequence, and cells for its whole text and its drafts. Sequences that
    /// do not draft now are evicted, least recently used first.
    fn make_room(&mut self, sequence: &impl Drafting, drafts: u32) -> Option<Slot> {
        let next = self.states[&sequence.id()].next();
        let more = sequence.tokens().len() as u32 + drafts - next;
        loop {
            let state = self.states.get_mut(&sequence.id())?;
            if self.claimed + more <= self.capacity.total_cells
                && let Some(slot) = state.slot.or_else(|| Some(self.free_slots.pop()?.0))
            {
                state.slot = Some(slot);
                state.round = self.round;
                self.claimed += more;
                return Some(slot);
            }
            let others = self.states.iter_mut().filter(|(id, state)| {
                **id != sequence.id() && state.slot.is_some() && state.round < self.round
            });
            let (_, longest) = others.min_by_key(|(id, state)| (state.round, **id))?;
            self.claimed -= longest.cells;
            let slot = longest.vacate();
            self.free(slot);
        }
    }

    /// Divides the missing tokens that this round computes among the sequences.
    fn share_catching_up(&mut self, running: &[impl Drafting], steps: &Steps) {
        let price = self.known_token_micros();
        let affordable = if price > 0.0 {
            (CATCH_UP_SHARE * steps.cost.for_rows(steps.decodes) / price) as u32
        } else {
            FIRST_CATCH_UP
        };
        let turns = self.turns.len() as u32;
        let mut left = affordable
            .max(MIN_CATCH_UP.max(turns))
            .min(self.capacity.max_batch_tokens.saturating_sub(turns));
        for turn in &mut self.turns {
            let text = running[turn.index].tokens().len() as u32;
            let mut missing = text - self.states[&turn.id].next();
            turn.tokens = missing.min(1 + left);
            if self.hidden.is_some() && turn.tokens < missing {
                // MTP layers draft at once, from the end of the text.
                let state = self.states.get_mut(&turn.id);
                state
                    .expect("who drafts has a state")
                    .begin_at(text - turn.tokens);
                self.backend.remove(turn.slot, 0);
                missing = turn.tokens;
            }
            turn.drafts = turn.tokens == missing;
            left -= turn.tokens - 1;
        }
        let all = self.turns.iter().all(|turn| turn.drafts);
        if steps.same_length && !all {
            self.turns.retain(|turn| !turn.drafts);
        }
        self.turns.truncate(self.capacity.max_batch_tokens as usize);
    }
}
