//! Positions of cells in the model's own counting. Most models count the tokens of a sequence, so
//! the index of a cell is its position. Models with M-RoPE count an image by lines and columns: all
//! of its cells are at the position where it begins. The next position follows the largest number
//! of a line or a column. Sounds are counted as tokens are.

use crate::backend::interface::TileShape;

/// Positions of the cells of each sequence. A sequence is cut or shared only at the start or the
/// end of an image, never inside.
pub(crate) struct Places(Vec<CellPositions>);

/// The cells of a sequence.
#[derive(Clone, Default)]
struct CellPositions {
    positions: Vec<u32>,
    /// Position of the next cell.
    next: u32,
}

impl Places {
    pub(super) fn new(sequences: u32) -> Self {
        Self(vec![CellPositions::default(); sequences as usize])
    }

    /// Number of cells of a sequence.
    pub(crate) fn cells(&self, sequence: u32) -> u32 {
        self.0[sequence as usize].positions.len() as u32
    }

    /// Returns the position of a cell. A cell beyond the end is counted as a token.
    pub(super) fn position(&self, sequence: u32, cell: u32) -> u32 {
        let row = &self.0[sequence as usize];
        let ahead = || row.next + cell - row.positions.len() as u32;
        let known = row.positions.get(cell as usize).copied();
        known.unwrap_or_else(ahead)
    }

    /// Adds the cell of a token to a sequence.
    pub(super) fn add_token(&mut self, sequence: u32) {
        let row = &mut self.0[sequence as usize];
        row.positions.push(row.next);
        row.next += 1;
    }

    /// Adds the cells of an image that begins at this position, or of a sound.
    pub(super) fn add_image(&mut self, sequence: u32, begin: u32, cells: u32, tile: &TileShape) {
        if tile.columns.is_none() {
            (0..cells).for_each(|_| self.add_token(sequence));
            return;
        }
        let row = &mut self.0[sequence as usize];
        let count = row.positions.len() + cells as usize;
        row.positions.resize(count, begin);
        row.next = begin + tile.span();
    }

    /// Removes the cells of a sequence from this one on.
    pub(super) fn cut(&mut self, sequence: u32, from: u32) {
        let next = self.position(sequence, from);
        let row = &mut self.0[sequence as usize];
        if (from as usize) < row.positions.len() {
            row.positions.truncate(from as usize);
            row.next = next;
        }
    }

    /// Copies the positions of the first cells to another sequence, which may have some behind
    /// them.
    pub(crate) fn share(&mut self, from: u32, to: u32, cells: u32) {
        let next = self.position(from, cells);
        let shared = self.0[from as usize].positions[..cells as usize].to_vec();
        let row = &mut self.0[to as usize];
        if row.positions.len() > cells as usize {
            row.positions[..cells as usize].copy_from_slice(&shared);
        } else {
            row.positions = shared;
            row.next = next;
        }
    }

    /// Restores an empty sequence with cells at these positions. `before` cells are added before
    /// them, and `next` is the next position.
    pub(crate) fn restore(
        &mut self,
        sequence: u32,
        before: u32,
        positions: impl Iterator<Item = u32>,
        next: u32,
    ) {
        let row = &mut self.0[sequence as usize];
        row.positions.clear();
        row.positions.resize(before as usize, 0);
        row.positions.extend(positions);
        row.next = next;
    }

    /// Removes all cells of all sequences.
    pub(super) fn clear(&mut self) {
        for row in &mut self.0 {
            *row = CellPositions::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;

    use super::*;

    const GRID: TileShape = TileShape {
        positions: 6,
        columns: NonZero::new(3),
        looks_ahead: false,
        is_sound: false,
    };

    /// Two tokens, an image of two lines with three columns, two tokens.
    fn places() -> Places {
        let mut places = Places::new(2);
        for _ in 0..2 {
            places.add_token(0);
        }
        for cells in [4, 2] {
            places.add_image(0, 2, cells, &GRID);
        }
        for _ in 0..2 {
            places.add_token(0);
        }
        places
    }

    #[test]
    fn what_follows_an_image_is_behind_its_longest_side() {
        let places = places();
        let positions: Vec<u32> = (0..12).map(|cell| places.position(0, cell)).collect();
        assert_eq!(positions, [0, 1, 2, 2, 2, 2, 2, 2, 5, 6, 7, 8]);
        assert_eq!(places.cells(0), 10);
    }

    #[test]
    fn a_sound_is_counted_as_tokens_are() {
        let sound = TileShape {
            columns: None,
            is_sound: true,
            ..GRID
        };
        let mut places = places();
        for cells in [4, 2] {
            places.add_image(0, 7, cells, &sound);
        }
        let positions: Vec<u32> = (9..17).map(|cell| places.position(0, cell)).collect();
        assert_eq!(positions, [6, 7, 8, 9, 10, 11, 12, 13]);
    }

    #[test]
    fn a_sequence_that_is_cut_goes_on_where_it_was() {
        let mut places = places();
        places.cut(0, 10);
        places.cut(0, 8);
        assert_eq!((places.cells(0), places.position(0, 8)), (8, 5));
        places.cut(0, 2);
        assert_eq!((places.cells(0), places.position(0, 2)), (2, 2));
        places.cut(0, 0);
        assert_eq!(places.position(0, 0), 0);
    }

    #[test]
    fn what_is_shared_has_the_same_positions() {
        let mut places = places();
        places.share(0, 1, 8);
        assert_eq!((places.cells(1), places.position(1, 8)), (8, 5));
        places.cut(1, 0);
        places.restore(1, 8, [5, 6].into_iter(), 7);
        places.share(0, 1, 8);
        for cell in 0..11 {
            assert_eq!(places.position(0, cell), places.position(1, cell), "{cell}");
        }
    }
}
