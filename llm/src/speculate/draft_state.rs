//! What a sequence has of the draft model.

use std::ops::Range;

use smallvec::SmallVec;

use super::learned::Confidence;
use crate::backend::Slot;
use crate::protocol::SpeculationParams;
use crate::protocol::Token;

/// Tokens between two trials of drafts in a text, at least: fewer would hardly show another text.
const BETWEEN_TRIALS: usize = 32;

/// A token that the draft model expects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guess {
    pub(super) token: Token,
    /// What the draft model gives it.
    pub(super) probability: f32,
}

/// A sequence's cells in the draft model's context, and how well it drafts.
#[derive(Debug)]
pub(super) struct DraftState {
    /// `None` if it has no cells.
    pub(super) slot: Option<Slot>,
    /// The token of its first cell, by its position in the text.
    pub(super) first: u32,
    /// Cells: of its text from there on, and in a round of what it drafts behind it.
    pub(super) cells: u32,
    /// The hidden state behind the token that was drafted last, where drafts are made from those.
    pub(super) hidden: Vec<f32>,
    /// What was drafted in its last round, behind the text as it was.
    pub(super) drafted: SmallVec<[Guess; 8]>,
    /// Tokens of the text as it was.
    text: usize,
    pub(super) learned: Confidence,
    /// The round it last took part in.
    pub(super) round: u64,
    /// The length of the text from which drafts may be tried that are not expected to pay.
    next_trial: usize,
}

impl DraftState {
    /// Of a text that is new here.
    pub(super) fn new(length: usize, learned: Confidence) -> Self {
        Self {
            slot: None,
            first: 0,
            cells: 0,
            hidden: Vec::new(),
            drafted: SmallVec::new(),
            text: length,
            learned,
            round: 0,
            next_trial: length + BETWEEN_TRIALS,
        }
    }

    /// Learns from what the text became, and keeps the cells that belong to it. Returns how many have
    /// to be removed.
    ///
    /// MTP layers and EAGLE3 models draft from the hidden states at these positions of the text,
    /// `hidden`, and begin anew with those where `cells_per_sequence` cells have no room for the text
    /// and the longest draft.
    pub(super) fn settle(
        &mut self,
        text: &[Token],
        learned: &mut Confidence,
        hidden: Option<Range<u32>>,
        cells_per_sequence: u32,
    ) -> u32 {
        let mut right = 0;
        for (guess, token) in self.drafted.drain(..).zip(&text[self.text..]) {
            let came_true = guess.token == *token;
            self.learned.observe(guess.probability, came_true);
            learned.observe(guess.probability, came_true);
            if !came_true {
                break;
            }
            right += 1;
        }
        // A text that has not gone on has its last token computed again: what it said is gone.
        let last = text.len().saturating_sub(1);
        let before = self.cells;
        let valid = match hidden {
            None => self.text + right,
            // The main model's hidden states are better than those that drafts were made with.
            Some(_) => self.text,
        };
        let end = (valid.min(last) as u32).saturating_sub(self.first);
        self.cells = before.min(end);
        if let Some(hidden) = hidden {
            let before = self.next().checked_sub(1);
            let goes_on = before.is_some_and(|before| hidden.contains(&before));
            let needs =
                (text.len() as u32).saturating_sub(self.first) + SpeculationParams::MAX_DRAFTS;
            if !goes_on || needs > cells_per_sequence {
                // They begin anew with what there is.
                self.begin_at(hidden.start + 1);
            }
        }
        let wrong = before - self.cells;
        self.text = text.len();
        wrong
    }

    /// Has no cells from here on, and the next is that of the token at this position.
    pub(super) fn begin_at(&mut self, position: u32) {
        self.first = position;
        self.cells = 0;
    }

    /// The position in the text of the token that is computed next.
    pub(super) fn next(&self) -> u32 {
        self.first + self.cells
    }

    /// Whether drafts that are not expected to pay may be tried once more.
    pub(super) fn is_due(&self, length: usize) -> bool {
        length >= self.next_trial
    }

    /// Keeps what is drafted next behind a text of this length.
    pub(super) fn push(&mut self, guess: Guess, length: usize) {
        self.drafted.push(guess);
        self.next_trial = length + BETWEEN_TRIALS;
    }

    /// Gives its cells to others; what was learned stays.
    pub(super) fn vacate(&mut self) -> Option<Slot> {
        self.drafted.clear();
        self.cells = 0;
        self.slot.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(cells: u32, text: usize, hidden: Range<u32>, cells_per_sequence: u32) -> DraftState {
        let mut state = DraftState::new(cells as usize, Confidence::new());
        state.cells = cells;
        let text = vec![0; text];
        let removed = state.settle(
            &text,
            &mut Confidence::new(),
            Some(hidden),
            cells_per_sequence,
        );
        assert_eq!(removed, cells - state.cells);
        state
    }

    #[test]
    fn a_text_with_room_for_the_longest_draft_goes_on() {
        let state = settled(100, 101, 50..100, 101 + SpeculationParams::MAX_DRAFTS);
        assert_eq!((state.first, state.cells), (0, 100));
    }

    #[test]
    fn a_text_without_begins_anew_with_the_hidden_states_that_are_there() {
        let state = settled(100, 101, 50..100, 100 + SpeculationParams::MAX_DRAFTS);
        assert_eq!((state.first, state.cells, state.next()), (51, 0, 51));
    }

    #[test]
    fn so_does_a_text_whose_next_hidden_state_is_missing() {
        let state = settled(100, 300, 240..299, 4096);
        assert_eq!((state.first, state.cells), (241, 0));
    }
}
