//! Cells of a block that tokens see.

use std::ops::Range;

use crate::data::attention::BLOCK;

/// Cells that are looked at together.
pub(super) const AT_ONCE: usize = 32;
/// Mask of a cell that is not seen: minus infinity in 16 bits.
pub(super) const UNSEEN: i16 = 0xfc00_u16.cast_signed();

/// A bit for each cell of a block.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cells(pub(super) [u32; BLOCK / AT_ONCE]);

impl Cells {
    pub(super) fn has(&self, cell: u16) -> bool {
        let cell = usize::from(cell);
        self.0[cell / AT_ONCE] >> (cell % AT_ONCE) & 1 == 1
    }

    pub(super) fn or(&mut self, other: &Self) {
        self.0
            .iter_mut()
            .zip(other.0)
            .for_each(|(own, other)| *own |= other);
    }

    pub(super) fn and(&mut self, other: &Self) {
        self.0
            .iter_mut()
            .zip(other.0)
            .for_each(|(own, other)| *own &= other);
    }

    /// Replaces `cells` by the cells that are in here.
    pub(super) fn list(&self, cells: &mut Vec<u16>) {
        cells.clear();
        for (index, bits) in self.0.iter().enumerate() {
            let mut bits = *bits;
            while bits != 0 {
                cells.push((index * AT_ONCE) as u16 + bits.trailing_zeros() as u16);
                bits &= bits - 1;
            }
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.0.iter().map(|bits| bits.count_ones()).sum()
    }

    /// From the first cell that is in here to the last, as places in the list of others that have
    /// these.
    pub(super) fn places_in(&self, others: &Self) -> Range<usize> {
        let (mut places, mut before) = (0..0, 0);
        for (own, other) in self.0.iter().zip(others.0) {
            if *own != 0 {
                let below = |bit: u32| before + (other & ((1 << bit) - 1)).count_ones() as usize;
                if places.is_empty() {
                    places.start = below(own.trailing_zeros());
                }
                places.end = below(own.ilog2()) + 1;
            }
            before += other.count_ones() as usize;
        }
        places
    }
}

/// Cells of a block that a token sees.
#[derive(Clone, Copy, Default)]
pub(super) struct SeenCells {
    /// All seen cells.
    pub(super) any: Cells,
    /// The seen cells whose scores stay as they are.
    pub(super) plain: Cells,
}

/// Returns the cells that any of some tokens sees, and the ones whose scores stay as they are for
/// all of them.
pub(super) fn common(seen: &[SeenCells]) -> (Cells, Cells) {
    let (mut any, mut plain) = (seen[0].any, seen[0].plain);
    for seen in &seen[1..] {
        any.or(&seen.any);
        plain.and(&seen.plain);
    }
    (any, plain)
}
