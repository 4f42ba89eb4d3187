//! Hidden states of the main model, which its MTP layers or an EAGLE3 model draft from.
//!
//! They compute a token from the main model's hidden state for the token before it. The hidden
//! states of the last tokens of each sequence are kept, so that drafting can begin, or continue
//! after a pause, without the rest of the text: their context may begin anywhere. If the cells of a
//! prompt were reused from another sequence, it has no hidden states.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::protocol::SequenceId;

/// Number of hidden states kept per sequence: more than a step can draft.
pub(crate) const KEPT: u32 = 64;

/// Hidden states of all sequences that draft.
#[derive(Debug)]
pub(super) struct Hidden {
    width: usize,
    kept: FxHashMap<SequenceId, HiddenRows>,
}

/// Hidden states behind consecutive tokens of a sequence.
#[derive(Debug)]
struct HiddenRows {
    /// Positions of the tokens.
    positions: Range<u32>,
    /// Rows of numbers; the row of a position is at the position modulo [`KEPT`].
    rows: Vec<f32>,
}

impl Hidden {
    /// Creates a store for hidden states of this many numbers.
    pub(super) fn new(width: usize) -> Self {
        Self {
            width,
            kept: FxHashMap::default(),
        }
    }

    /// Stores the hidden states of a step, one row for each sequence and position in `tokens`. If a
    /// position is computed again, the states from there on are dropped.
    pub(super) fn keep(&mut self, tokens: &[(SequenceId, u32)], rows: &[f32]) {
        for ((id, position), row) in tokens.iter().zip(rows.chunks_exact(self.width)) {
            let kept = self.kept.entry(*id).or_insert_with(|| HiddenRows {
                positions: *position..*position,
                rows: vec![0.0; KEPT as usize * self.width],
            });
            let Range { start, end } = kept.positions;
            let start = if (start..=end).contains(position) {
                start
            } else {
                *position
            };
            kept.positions = start.max((position + 1).saturating_sub(KEPT))..position + 1;
            kept.rows[place(*position, self.width)].copy_from_slice(row);
        }
    }

    /// Returns the positions of a sequence whose hidden states are stored.
    pub(super) fn positions(&self, id: SequenceId) -> Range<u32> {
        self.kept
            .get(&id)
            .map_or(0..0, |kept| kept.positions.clone())
    }

    /// Returns the hidden state behind a token; `None` if it is not stored.
    pub(super) fn row(&self, id: SequenceId, position: u32) -> Option<&[f32]> {
        let kept = self.kept.get(&id)?;
        kept.positions
            .contains(&position)
            .then(|| &kept.rows[place(position, self.width)])
    }

    pub(super) fn forget(&mut self, id: SequenceId) {
        self.kept.remove(&id);
    }
}

fn place(position: u32, width: usize) -> Range<usize> {
    let begin = (position % KEPT) as usize * width;
    begin..begin + width
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: SequenceId = SequenceId(7);

    fn keep(hidden: &mut Hidden, positions: Range<u32>, number: f32) {
        let tokens: Vec<_> = positions.clone().map(|position| (ID, position)).collect();
        let rows: Vec<f32> = positions
            .flat_map(|position| [position as f32, number])
            .collect();
        hidden.keep(&tokens, &rows);
    }

    #[test]
    fn the_last_ones_are_kept() {
        let mut hidden = Hidden::new(2);
        keep(&mut hidden, 100..300, 1.0);
        assert_eq!(hidden.positions(ID), 300 - KEPT..300);
        assert_eq!(hidden.row(ID, 299), Some(&[299.0, 1.0][..]));
        assert_eq!(hidden.row(ID, 300 - KEPT), Some(&[236.0, 1.0][..]));
        assert_eq!(hidden.row(ID, 299 - KEPT), None);
    }

    #[test]
    fn a_position_that_is_computed_again_ends_what_was_kept() {
        let mut hidden = Hidden::new(2);
        keep(&mut hidden, 0..10, 1.0);
        keep(&mut hidden, 6..8, 2.0);
        assert_eq!(hidden.positions(ID), 0..8);
        assert_eq!(hidden.row(ID, 5), Some(&[5.0, 1.0][..]));
        assert_eq!(hidden.row(ID, 6), Some(&[6.0, 2.0][..]));
    }

    #[test]
    fn a_gap_begins_anew() {
        let mut hidden = Hidden::new(2);
        keep(&mut hidden, 0..10, 1.0);
        keep(&mut hidden, 20..22, 1.0);
        assert_eq!(hidden.positions(ID), 20..22);
        keep(&mut hidden, 5..6, 1.0);
        assert_eq!(hidden.positions(ID), 5..6);
        hidden.forget(ID);
        assert_eq!(hidden.positions(ID), 0..0);
    }
}
