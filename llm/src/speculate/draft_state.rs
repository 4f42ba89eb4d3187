//! State of a sequence in the draft model.

use std::ops::Range;

use smallvec::SmallVec;

use super::learned::Confidence;
use crate::backend::Slot;
use crate::protocol::SpeculationParams;
use crate::protocol::Token;

/// Minimum number of tokens between two trials of drafts in a text. After fewer, the text would
/// hardly have changed.
const BETWEEN_TRIALS: usize = 32;

/// A token that the draft model expects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guess {
    pub(super) token: Token,
    /// Probability in the draft model.
    pub(super) probability: f32,
}

/// A sequence's cells in the draft model's context, and the quality of its drafts.
#[derive(Debug)]
pub(super) struct DraftState {
    /// Slot of its cells; `None` if it has none.
    pub(super) slot: Option<Slot>,
    /// Position in the text of the token in its first cell.
    pub(super) first: u32,
    /// Number of cells: of its text from `first` on, and during a round of the drafts behind it.
    pub(super) cells: u32,
    /// Hidden state behind the last drafted token, if drafts are made from hidden states.
    pub(super) hidden: Vec<f32>,
    /// Drafts of its last round, behind the text at that time.
    pub(super) drafted: SmallVec<[Guess; 8]>,
    /// Number of tokens of the text at that time.
    text: usize,
    pub(super) learned: Confidence,
    /// Last round that it took part in.
    pub(super) round: u64,
    /// Length of the text from which unprofitable drafts may be tried again.
    next_trial: usize,
}

impl DraftState {
    /// Creates the state of a new text.
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

    /// Learns from the continuation of the text, and keeps the cells that match it. Returns the
    /// number of cells to remove.
    ///
    /// MTP layers and EAGLE3 models draft from the hidden states at the positions `hidden` of the
    /// text. If `cells_per_sequence` cells have no room for the text and the longest draft, they
    /// start again from these positions.
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
        // If the text has not grown, its last token is computed again: its logits are gone.
        let last = text.len().saturating_sub(1);
        let before = self.cells;
        let valid = match hidden {
            None => self.text + right,
            // The main model's hidden states are better than those of the drafts.
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
                // Drafting starts again with the available hidden states.
                self.begin_at(hidden.start + 1);
            }
        }
        let wrong = before - self.cells;
        self.text = text.len();
        wrong
    }

    /// Drops all cells. The next one is that of the token at this position.
    pub(super) fn begin_at(&mut self, position: u32) {
        self.first = position;
        self.cells = 0;
    }

    /// Position in the text of the next token to compute.
    pub(super) fn next(&self) -> u32 {
        self.first + self.cells
    }

    /// Returns true if unprofitable drafts may be tried again.
    pub(super) fn is_due(&self, length: usize) -> bool {
        length >= self.next_trial
    }

    /// Adds a draft behind a text of this length.
    pub(super) fn push(&mut self, guess: Guess, length: usize) {
        self.drafted.push(guess);
        self.next_trial = length + BETWEEN_TRIALS;
    }

    /// Frees its slot for others. Learned chances stay.
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
