//! The drafter: a draft model, an EAGLE3 model, or the MTP layers of the main model. It follows the
//! texts of the sequences that use it, and guesses their continuations.
//!
//! It has its own context, in which a drafting sequence has a slot. A round of drafting computes
//! the tokens that each sequence got since its last round, and then one more token after the other
//! for all of them at once. It continues as long as the next token is worth its time: that of the
//! draft model, and that of a row of the main model which checks it. Wrong drafts are removed when
//! the text has continued differently.
//!
//! A text that is new to the draft model is computed over several steps, so that none takes much
//! longer. A sequence whose drafts do not pay stops drafting, and tries again from time to time.
//! Trials take a small part of the time.
//!
//! MTP layers and EAGLE3 models compute each token with the hidden state before it: the main
//! model's, and behind their own drafts their own. If hidden states of a text are missing, they
//! start again behind the gap.
//!
//! A failure cannot end a sequence: if the draft model fails, there are no drafts from then on.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use super::draft_state::{DraftState, Guess};
use super::drafting::Drafting;
use super::hidden::Hidden;
use super::learned::Confidence;
use super::trials::Trials;
use super::turns::Turn;
use super::worth::Steps;
use crate::backend::{Adapters, Backend, BatchToken, Capacity, DecodeError, Slot};
use crate::protocol::SequenceId;
use crate::sampler;
use crate::schedule::cost::{CostModel, StepSize};
use crate::worker::catch;

/// State of the draft model, owned by the engine thread.
pub(super) struct Drafter<'a> {
    pub(super) backend: &'a mut dyn Backend,
    pub(super) capacity: Capacity,
    /// Number of tokens that both models have in common, from 0.
    pub(super) n_vocab: usize,
    pub(super) states: FxHashMap<SequenceId, DraftState>,
    pub(super) free_slots: BinaryHeap<Reverse<Slot>>,
    /// Number of cells in use, plus cells that sequences of this round may come to use.
    pub(super) claimed: u32,
    cost: CostModel,
    /// Number of cells that a row of the last batch attended to.
    attended: u64,
    /// Assumptions for sequences that have not drafted yet.
    pub(super) learned: Confidence,
    pub(super) round: u64,
    pub(super) trials: Trials,
    failed: bool,
    /// Hidden states that MTP layers and EAGLE3 models draft from; `None` for other draft models.
    pub(super) hidden: Option<Hidden>,
    // Memory reused from round to round.
    pub(super) turns: Vec<Turn>,
    batch: Vec<BatchToken>,
    /// Hidden states before its tokens; those of the main model are not encoded yet.
    before: Vec<f32>,
    encoded: Vec<f32>,
}

impl<'a> Drafter<'a> {
    /// Creates the drafter of a main model with `n_vocab` tokens in its vocabulary.
    pub(super) fn new(backend: &'a mut dyn Backend, n_vocab: usize) -> Self {
        let capacity = backend.capacity();
        let width = backend.hidden_width();
        Self {
            n_vocab: n_vocab.min(backend.n_vocab()),
            backend,
            capacity,
            states: FxHashMap::default(),
            free_slots: (0..capacity.max_sequences)
                .map(|slot| Reverse(Slot(slot)))
                .collect(),
            claimed: 0,
            cost: CostModel::default(),
            attended: 0,
            learned: Confidence::new(),
            round: 0,
            trials: Trials::default(),
            failed: false,
            hidden: (width > 0).then(|| Hidden::new(width)),
            turns: Vec::new(),
            batch: Vec::new(),
            before: Vec::new(),
            encoded: Vec::new(),
        }
    }

    /// Drafts for the running sequences that ask for it, if that pays.
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
        self.states.clear();
        for sequence in running
            .iter_mut()
            .filter(|sequence| sequence.model_draft().is_some())
        {
            sequence.keep_drafts(0);
        }
    }

    /// Returns true if the main model's hidden states are needed.
    pub(super) fn wants_hidden(&self) -> bool {
        self.hidden.is_some() && !self.failed
    }

    /// Stores hidden states, one row for each sequence and position in `tokens`.
    pub(super) fn keep_hidden(&mut self, tokens: &[(SequenceId, u32)], rows: &[f32]) {
        if let Some(hidden) = &mut self.hidden {
            hidden.keep(tokens, rows);
        }
    }

    /// Drops the state of a sequence.
    pub(super) fn forget(&mut self, id: SequenceId) {
        if let Some(hidden) = &mut self.hidden {
            hidden.forget(id);
        }
        if let Some(state) = self.states.remove(&id) {
            self.free(state.slot);
        }
    }

    pub(super) fn free(&mut self, slot: Option<Slot>) {
        if let Some(slot) = slot {
            self.backend.remove(slot, 0);
            self.free_slots.push(Reverse(slot));
        }
    }

    /// Compares drafts with the continuation of the text, and removes wrong ones.
    pub(super) fn settle(&mut self, sequence: &impl Drafting) {
        let length = sequence.tokens().len();
        let learned = &self.learned;
        let state = self
            .states
            .entry(sequence.id())
            .or_insert_with(|| DraftState::new(length, learned.as_assumption()));
        let hidden = self.hidden.as_ref();
        let hidden = hidden.map(|hidden| hidden.positions(sequence.id()));
        let most = self.capacity.cells_per_sequence;
        let wrong = state.settle(sequence.tokens(), &mut self.learned, hidden, most);
        if let (Some(slot), true) = (state.slot, wrong > 0) {
            self.backend.remove(slot, state.cells);
        }
    }

    /// Drafts one token after the other.
    fn run(&mut self, running: &mut [impl Drafting], steps: &Steps) -> Result<(), DecodeError> {
        while !self.turns.is_empty() {
            self.decode(running)?;
            self.turns.retain(|turn| turn.drafts);
            let rows = self.turns.len() as u32;
            let price = self.price(rows, steps);
            let logits = self.backend.logits().chunks(self.backend.n_vocab());
            let hidden = self.backend.hidden();
            let width = hidden.len() / self.turns.len().max(1);
            let mut hidden = hidden.chunks(width.max(1));
            for (turn, row) in self.turns.iter_mut().zip(logits) {
                let (token, probability) = sampler::most_likely(&row[..self.n_vocab])
                    .ok_or_else(|| DecodeError::Failed("it gave no finite logit".to_owned()))?;
                let state = self
                    .states
                    .get_mut(&turn.id)
                    .expect("who drafts has a state");
                let length = running[turn.index].tokens().len();
                state.push(Guess { token, probability }, length);
                state.hidden.clear();
                state.hidden.extend(hidden.next().unwrap_or_default());
                turn.tokens = 1;
                turn.drafts = probability >= turn.wanted.confidence_threshold;
                if turn.drafts {
                    turn.chance *= state.learned.chance(probability);
                    running[turn.index].push_draft(token, turn.chance);
                    turn.drafts = (state.drafted.len() as u32) < turn.wanted.limit
                        && turn.chance * state.learned.mean() >= price;
                }
            }
            self.turns.retain(|turn| turn.drafts);
            if steps.same_length && (self.turns.len() as u32) < rows {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Computes the next tokens of all sequences in `turns`.
    fn decode(&mut self, running: &[impl Drafting]) -> Result<(), DecodeError> {
        self.batch.clear();
        self.before.clear();
        let mut size = StepSize::default();
        for turn in &self.turns {
            let state = &self.states[&turn.id];
            let known = running[turn.index].tokens();
            let drafted = state.drafted.iter().map(|guess| guess.token);
            let text = known
                .iter()
                .copied()
                .chain(drafted)
                .skip(state.next() as usize);
            let positions = state.cells..state.cells + turn.tokens;
            let last = positions.end - 1;
            self.batch
                .extend(positions.zip(text).map(|(position, token)| BatchToken {
                    token,
                    position,
                    slot: turn.slot,
                    logits: turn.drafts && position == last,
                    hidden: self.hidden.is_some() && turn.drafts && position == last,
                    adapters: Adapters::default(),
                }));
            if let Some(hidden) = &self.hidden {
                for next in (state.next()..).take(turn.tokens as usize) {
                    let row = if (next as usize) < known.len() {
                        hidden.row(turn.id, next - 1).unwrap_or_default()
                    } else {
                        &state.hidden
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
            // Either all tokens are known, or all were drafted.
            if self
                .turns
                .iter()
                .all(|turn| self.states[&turn.id].drafted.is_empty())
            {
                self.encoded.clear();
                let encoded = self.backend.encode_hidden(&self.before)?;
                self.encoded.extend_from_slice(encoded);
                std::mem::swap(&mut self.before, &mut self.encoded);
            }
            self.backend.decode_with_hidden(&self.batch, &self.before)?;
        } else {
            self.backend.decode(&self.batch)?;
        }
        // Some backends compute until the logits are read.
        self.backend.logits();
        let took = self.backend.now().duration_since(started);
        let took = took.as_secs_f64() * 1e6;
        self.cost.observe(&size, took);
        let trials = self.turns.iter().filter(|turn| turn.is_trial).count();
        self.trials
            .spend(took * trials as f64 / self.turns.len() as f64);
        for turn in &self.turns {
            if let Some(state) = self.states.get_mut(&turn.id) {
                state.cells += turn.tokens;
            }
        }
        if size.decode_tokens > 0 {
            self.attended = size.attended_cells / u64::from(size.decode_tokens);
        }
        Ok(())
    }

    /// Returns the microseconds of a known token. MTP layers compute few of them at once, so known
    /// tokens cost them the same as drafted ones, and each round shows the cost of drafting.
    pub(super) fn known_token_micros(&self) -> f64 {
        if self.hidden.is_some() {
            self.cost.decode_token_micros()
        } else {
            self.cost.token_micros()
        }
    }

    /// Returns the minimum chance of one more token, if `rows` sequences draft together: its time,
    /// expressed in tokens.
    pub(super) fn price(&self, rows: u32, steps: &Steps) -> f32 {
        let size = StepSize {
            decode_tokens: rows,
            attended_cells: u64::from(rows) * self.attended,
            prompt_tokens: 0,
        };
        steps.price(self.cost.decode_micros(&size) / f64::from(rows.max(1)))
    }
}
