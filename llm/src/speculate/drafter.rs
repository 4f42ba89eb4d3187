//! The draft model, or the MTP layers of the main model: it follows the texts of the sequences that
//! ask for it, and says how they may go on.
//!
//! It has a context of its own, where a sequence that drafts has a slot. A round of drafting
//! computes what each of them has got since its last round, then one token after the other for all
//! of them at once, as long as the next one is worth its time: what the draft model takes for it,
//! and the row of the main model that checks it. What was drafted wrongly is removed when the text
//! has gone on otherwise.
//!
//! A text that is new to the draft model is computed over several steps, so that none takes much
//! longer. A sequence whose drafts do not pay stops drafting and tries again after some tokens,
//! later each time.
//!
//! MTP layers compute each token with the hidden state before it: the main model's, and behind what
//! they drafted their own. Where they lack some of a text, they begin anew behind that.
//!
//! Nothing here can end a sequence: when the draft model fails, there are no drafts from then on.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use super::drafting::{Drafting, ModelDraft};
use super::hidden::Hidden;
use super::learned::Confidence;
use super::place::{Guess, Place};
use super::worth::Steps;
use crate::backend::{Backend, BatchToken, Capacity, DecodeError, Slot};
use crate::protocol::SequenceId;
use crate::sampler;
use crate::schedule::cost::{CostModel, StepSize};
use crate::worker::catch;

/// Known tokens that a round computes beside each sequence's last one, while it is not known how
/// long they take.
const FIRST_CATCH_UP: u32 = 64;
/// And at least.
const MIN_CATCH_UP: u32 = 16;
/// The part of a step's time that catching up may take beside it.
const CATCH_UP_SHARE: f64 = 0.5;
/// The part of the time that a sequence's remaining tokens take which catching up may take in all:
/// drafts save little more.
const WORTH_CATCHING_UP: f64 = 0.25;

/// The engine thread's knowledge of the draft model.
pub(super) struct Drafter<'a> {
    backend: &'a mut dyn Backend,
    capacity: Capacity,
    /// Tokens that both models have: those below this.
    n_vocab: usize,
    places: FxHashMap<SequenceId, Place>,
    free_slots: BinaryHeap<Reverse<Slot>>,
    /// Cells that are in use, and those that sequences of this round may come to use.
    claimed: u32,
    cost: CostModel,
    /// Cells that a row of the last batch attended to.
    attended: u64,
    /// What sequences begin with that have not drafted yet.
    learned: Confidence,
    round: u64,
    failed: bool,
    /// What MTP layers draft from; `None` for a draft model.
    hidden: Option<Hidden>,
    // Memory reused from round to round.
    turns: Vec<Turn>,
    batch: Vec<BatchToken>,
    /// The hidden states before its tokens.
    before: Vec<f32>,
}

/// A sequence that takes part in a round.
#[derive(Clone, Copy, Debug)]
struct Turn {
    /// Its place among the running.
    index: usize,
    id: SequenceId,
    slot: Slot,
    wanted: ModelDraft,
    /// Tokens that the next batch computes.
    tokens: u32,
    /// Whether they are all that is known, so that a token is drafted.
    drafts: bool,
    /// That all drafted so far are right.
    chance: f32,
}

impl<'a> Drafter<'a> {
    /// The draft model of a main model with so many tokens in its vocabulary.
    pub(super) fn new(backend: &'a mut dyn Backend, n_vocab: usize) -> Self {
        let capacity = backend.capacity();
        let width = backend.hidden_width();
        Self {
            n_vocab: n_vocab.min(backend.n_vocab()),
            backend,
            capacity,
            places: FxHashMap::default(),
            free_slots: (0..capacity.max_sequences)
                .map(|slot| Reverse(Slot(slot)))
                .collect(),
            claimed: 0,
            cost: CostModel::default(),
            attended: 0,
            learned: Confidence::new(),
            round: 0,
            failed: false,
            hidden: (width > 0).then(|| Hidden::new(width)),
            turns: Vec::new(),
            batch: Vec::new(),
            before: Vec::new(),
        }
    }

    /// Drafts for those of the running sequences that want it, where it pays.
    pub(super) fn draft(&mut self, running: &mut [impl Drafting], steps: &Steps) {
        if self.failed {
            return;
        }
        self.round += 1;
        let outcome = catch(|| {
            self.take_turns(running, steps);
            self.run(running, steps)
        });
        let message = match outcome {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(message) => message,
        };
        tracing::warn!(
            message,
            "the draft model failed; nothing is drafted with it from now on"
        );
        self.failed = true;
        self.places.clear();
        for sequence in running
            .iter_mut()
            .filter(|sequence| sequence.model_draft().is_some())
        {
            sequence.keep_drafts(0);
        }
    }

    /// Whether the main model's hidden states are wanted.
    pub(super) fn wants_hidden(&self) -> bool {
        self.hidden.is_some() && !self.failed
    }

    /// Takes over hidden states: whose tokens, at which positions, and a row for each.
    pub(super) fn keep_hidden(&mut self, tokens: &[(SequenceId, u32)], rows: &[f32]) {
        if let Some(hidden) = &mut self.hidden {
            hidden.keep(tokens, rows);
        }
    }

    /// Gives up what a sequence has here.
    pub(super) fn forget(&mut self, id: SequenceId) {
        if let Some(hidden) = &mut self.hidden {
            hidden.forget(id);
        }
        if let Some(place) = self.places.remove(&id) {
            self.free(place.slot);
        }
    }

    fn free(&mut self, slot: Option<Slot>) {
        if let Some(slot) = slot {
            self.backend.remove(slot, 0);
            self.free_slots.push(Reverse(slot));
        }
    }

    /// Decides who drafts in this round.
    fn take_turns(&mut self, running: &[impl Drafting], steps: &Steps) {
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
        let (mut means, mut due) = (0.0, false);
        for (sequence, _) in wanting() {
            self.settle(sequence);
            let place = &self.places[&sequence.id()];
            means += place.learned.mean();
            due |= place.is_due(sequence.tokens().len());
        }
        self.claimed = self.places.values().map(|place| place.cells).sum();
        let common = steps.same_length.then_some((means / count as f32, due));
        let price = self.price(count, steps);
        for (index, sequence) in running.iter().enumerate() {
            let Some(mut wanted) = sequence.model_draft() else {
                continue;
            };
            let length = sequence.tokens().len();
            let room = self
                .capacity
                .cells_per_sequence
                .saturating_sub(length as u32);
            wanted.limit = wanted.limit.min(room);
            let Some(place) = self.places.get_mut(&sequence.id()) else {
                continue;
            };
            let (mean, due) = common.unwrap_or((place.learned.mean(), place.is_due(length)));
            if wanted.limit == 0
                || !place.tries(mean >= price, due, length)
                || !self.can_catch_up(sequence, steps)
            {
                continue;
            }
            if let Some(slot) = self.make_room(sequence, wanted.limit) {
                self.turns.push(Turn {
                    index,
                    id: sequence.id(),
                    slot,
                    wanted,
                    tokens: 0,
                    drafts: false,
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

    /// Compares what was drafted with what the text became, and removes what was wrong.
    fn settle(&mut self, sequence: &impl Drafting) {
        let length = sequence.tokens().len();
        let learned = &self.learned;
        let place = self
            .places
            .entry(sequence.id())
            .or_insert_with(|| Place::new(length, learned.as_assumption()));
        let hidden = self.hidden.as_ref();
        let hidden = hidden.map(|hidden| hidden.positions(sequence.id()));
        let wrong = place.settle(sequence.tokens(), &mut self.learned, hidden);
        if let (Some(slot), true) = (place.slot, wrong > 0) {
            self.backend.remove(slot, place.cells);
        }
    }

    /// Whether a sequence's text can be computed here, and what is missing of it is not too much
    /// for what is left of it.
    fn can_catch_up(&self, sequence: &impl Drafting, steps: &Steps) -> bool {
        let (id, tokens) = (sequence.id(), sequence.tokens());
        let next = self.places[&id].next() as usize;
        if let Some(hidden) = &self.hidden
            && (hidden.positions(id).end as usize + 1 < tokens.len() || next >= tokens.len())
        {
            return false;
        }
        let missing = &tokens[next..];
        let takes = self.known_token_micros() * missing.len() as f64;
        let saves = WORTH_CATCHING_UP * steps.token_micros() * f64::from(sequence.remaining());
        (missing.len() as u32 <= MIN_CATCH_UP || takes <= saves)
            && missing.iter().all(|token| (*token as usize) < self.n_vocab)
    }

    /// Finds a slot for the sequence and cells for its whole text and its drafts; others that do
    /// not draft now make room, those that have not for longest first.
    fn make_room(&mut self, sequence: &impl Drafting, drafts: u32) -> Option<Slot> {
        let next = self.places[&sequence.id()].next();
        let more = sequence.tokens().len() as u32 + drafts - next;
        loop {
            let place = self.places.get_mut(&sequence.id())?;
            if self.claimed + more <= self.capacity.total_cells
                && let Some(slot) = place.slot.or_else(|| Some(self.free_slots.pop()?.0))
            {
                place.slot = Some(slot);
                place.round = self.round;
                self.claimed += more;
                return Some(slot);
            }
            let others = self.places.iter_mut().filter(|(id, place)| {
                **id != sequence.id() && place.slot.is_some() && place.round < self.round
            });
            let (_, longest) = others.min_by_key(|(id, place)| (place.round, **id))?;
            self.claimed -= longest.cells;
            let slot = longest.vacate();
            self.free(slot);
        }
    }

    /// Says how much of what they miss the sequences compute in this round.
    fn share_catching_up(&mut self, running: &[impl Drafting], steps: &Steps) {
        let price = self.known_token_micros();
        let affordable = if price > 0.0 {
            (CATCH_UP_SHARE * steps.cost.of(steps.decodes) / price) as u32
        } else {
            FIRST_CATCH_UP
        };
        let turns = self.turns.len() as u32;
        let mut left = affordable
            .max(MIN_CATCH_UP.max(turns))
            .min(self.capacity.max_batch_tokens.saturating_sub(turns));
        for turn in &mut self.turns {
            let text = running[turn.index].tokens().len() as u32;
            let mut missing = text - self.places[&turn.id].next();
            turn.tokens = missing.min(1 + left);
            if self.hidden.is_some() && turn.tokens < missing {
                // MTP layers draft at once, from the end of the text.
                let place = self.places.get_mut(&turn.id);
                place
                    .expect("who drafts has a place")
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

    /// Drafts token by token.
    fn run(&mut self, running: &mut [impl Drafting], steps: &Steps) -> Result<(), DecodeError> {
        while !self.turns.is_empty() {
            self.decode(running)?;
            self.turns.retain(|turn| turn.drafts);
            let rows = self.turns.len() as u32;
            let price = self.price(rows, steps);
            let logits = self.backend.logits().chunks(self.backend.n_vocab());
            let width = self.hidden.as_ref().map_or(0, Hidden::width);
            let mut hidden = self.backend.hidden().chunks(width.max(1));
            for (turn, row) in self.turns.iter_mut().zip(logits) {
                let (token, probability) = sampler::most_likely(&row[..self.n_vocab])
                    .ok_or_else(|| DecodeError::Failed("it gave no finite logit".to_owned()))?;
                let place = self
                    .places
                    .get_mut(&turn.id)
                    .expect("who drafts has a place");
                place.drafted.push(Guess { token, probability });
                place.hidden.clear();
                place.hidden.extend(hidden.next().unwrap_or_default());
                turn.tokens = 1;
                turn.drafts = probability >= turn.wanted.confidence_threshold;
                if turn.drafts {
                    turn.chance *= place.learned.chance(probability);
                    running[turn.index].push_draft(token, turn.chance);
                    turn.drafts = (place.drafted.len() as u32) < turn.wanted.limit
                        && turn.chance * place.learned.mean() >= price;
                }
            }
            self.turns.retain(|turn| turn.drafts);
            if steps.same_length && (self.turns.len() as u32) < rows {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Computes the next tokens of all whose turn it is.
    fn decode(&mut self, running: &[impl Drafting]) -> Result<(), DecodeError> {
        self.batch.clear();
        self.before.clear();
        let mut size = StepSize::default();
        for turn in &self.turns {
            let place = &self.places[&turn.id];
            let known = running[turn.index].tokens();
            let drafted = place.drafted.iter().map(|guess| guess.token);
            let text = known
                .iter()
                .copied()
                .chain(drafted)
                .skip(place.next() as usize);
            let positions = place.cells..place.cells + turn.tokens;
            let last = positions.end - 1;
            self.batch
                .extend(positions.zip(text).map(|(position, token)| BatchToken {
                    token,
                    position,
                    slot: turn.slot,
                    logits: turn.drafts && position == last,
                    hidden: self.hidden.is_some() && turn.drafts && position == last,
                    adapter: None,
                }));
            if let Some(hidden) = &self.hidden {
                for next in (place.next()..).take(turn.tokens as usize) {
                    let row = if (next as usize) < known.len() {
                        hidden.row(turn.id, next - 1).unwrap_or_default()
                    } else {
                        &place.hidden
                    };
                    self.before.extend_from_slice(row);
                }
            }
            let decodes = if self.hidden.is_some() {
                turn.tokens
            } else {
                u32::from(turn.drafts)
            };
            size.decode_tokens += decodes;
            size.prompt_tokens += turn.tokens - decodes;
            size.attended_cells += u64::from(decodes) * u64::from(last);
        }
        let started = self.backend.now();
        if self.hidden.is_some() {
            self.backend.decode_with_hidden(&self.batch, &self.before)?;
        } else {
            self.backend.decode(&self.batch)?;
        }
        // Some backends compute until somebody asks for logits.
        self.backend.logits();
        let took = self.backend.now().duration_since(started);
        self.cost.observe(&size, took.as_secs_f64() * 1e6);
        for turn in &self.turns {
            if let Some(place) = self.places.get_mut(&turn.id) {
                place.cells += turn.tokens;
            }
        }
        if size.decode_tokens > 0 {
            self.attended = size.attended_cells / u64::from(size.decode_tokens);
        }
        Ok(())
    }

    /// Microseconds of a token that is known. MTP layers compute few of them at once: to them they are
    /// as those that are drafted, so that each round tells what drafting costs.
    fn known_token_micros(&self) -> f64 {
        if self.hidden.is_some() {
            self.cost.decode_token_micros()
        } else {
            self.cost.token_micros()
        }
    }

    /// What the chance of one more token has to be at least, where so many sequences draft
    /// together: the time it takes, in tokens.
    fn price(&self, rows: u32, steps: &Steps) -> f32 {
        let size = StepSize {
            decode_tokens: rows,
            attended_cells: u64::from(rows) * self.attended,
            prompt_tokens: 0,
        };
        steps.price(self.cost.decode_micros(&size) / f64::from(rows.max(1)))
    }
}
