//! Hidden states of the main model, which its MTP layers or an EAGLE3 model draft from.
//!
//! They compute a token from what the model has made of the token before it, its hidden state. Those
//! of the last tokens of each sequence are kept, so that drafting can begin, or go on after a pause,
//! without the rest of the text: what they see of a text may begin anywhere. A prompt whose cells
//! were reused from another sequence has none.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::protocol::SequenceId;

/// How many of each sequence are kept: more than a step can draft.
pub(crate) const KEPT: u32 = 64;

/// What is kept of all sequences that draft.
#[derive(Debug)]
pub(super) struct Hidden {
    width: usize,
    kept: FxHashMap<SequenceId, Kept>,
}

/// The hidden states behind tokens of a sequence that come one after the other.
#[derive(Debug)]
struct Kept {
    /// The tokens, by their positions.
    positions: Range<u32>,
    /// That of a position is where the rest of dividing it by [`KEPT`] says.
    rows: Vec<f32>,
}

impl Hidden {
    /// For hidden states of so many numbers.
    pub(super) fn new(width: usize) -> Self {
        Self {
            width,
            kept: FxHashMap::default(),
        }
    }

    /// Takes over what a step has computed: whose tokens, at which positions, and a row for each.
    /// What was kept from a position on is no longer true when that is computed again.
    pub(super) fn keep(&mut self, tokens: &[(SequenceId, u32)], rows: &[f32]) {
        for ((id, position), row) in tokens.iter().zip(rows.chunks_exact(self.width)) {
            let kept = self.kept.entry(*id).or_insert_with(|| Kept {
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

    /// The positions of a sequence whose hidden states are there.
    pub(super) fn positions(&self, id: SequenceId) -> Range<u32> {
        self.kept
            .get(&id)
            .map_or(0..0, |kept| kept.positions.clone())
    }

    /// The hidden state behind a token.
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
