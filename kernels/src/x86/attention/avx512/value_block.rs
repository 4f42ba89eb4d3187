//! Values of a block of cells, summed by the weights of some rows.

use std::arch::x86_64::*;

use super::LANES;
use super::rows::Ahead;
use super::state::{Lanes, add_product};

/// Sums of some rows over some vectors of values.
pub(super) struct ValueBlock<'a, const MIXED: usize> {
    /// The first of these vectors, and those of the following cells.
    pub(super) values: &'a [Lanes],
    /// Number of vectors of a value.
    pub(super) vectors: usize,
    pub(super) cells: usize,
    /// Weights of the cells, for sixteen rows each.
    pub(super) weights: &'a [Lanes],
    /// The first of the rows.
    pub(super) row: usize,
    pub(super) added: &'a mut [Lanes],
    /// Values to prefetch.
    pub(super) ahead: &'a mut Ahead,
}

impl<const MIXED: usize> ValueBlock<'_, MIXED> {
    /// Adds values by the weights of `R` rows, `V` vectors of them.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn sum<const R: usize, const V: usize>(self) {
        let mut sums = [[_mm512_setzero_ps(); V]; R];
        for r in 0..R {
            for v in 0..V {
                sums[r][v] = self.added[r * self.vectors + v].load();
            }
        }
        assert!(self.values.len() + self.vectors >= self.cells * self.vectors + V);
        assert!(self.weights.len() * MIXED >= self.cells && (self.row + R) * MIXED <= LANES);
        for cell in 0..self.cells {
            self.ahead.fetch(1, 1);
            // SAFETY: there are as many values and weights.
            unsafe {
                let values = self.values.get_unchecked(cell * self.vectors..);
                let weights = &self.weights.get_unchecked(cell / MIXED).0;
                for r in 0..R {
                    let at = (self.row + r) * MIXED + cell % MIXED;
                    let weight = _mm512_set1_ps(*weights.get_unchecked(at));
                    for v in 0..V {
                        let value = values.get_unchecked(v).load();
                        add_product(&mut sums[r][v], value, weight);
                    }
                }
            }
        }
        for r in 0..R {
            for v in 0..V {
                self.added[r * self.vectors + v].store(sums[r][v]);
            }
        }
    }

    /// Adds values like [`Self::sum`], one row and vector at a time, for numbers of them that are
    /// rare.
    #[target_feature(enable = "avx512f")]
    pub(super) fn sum_each(self, rows: usize, vectors: usize) {
        for row in 0..rows {
            for vector in 0..vectors {
                let place = ValueBlock::<MIXED> {
                    values: &self.values[vector..],
                    row: self.row + row,
                    added: &mut self.added[row * self.vectors + vector..],
                    ahead: self.ahead,
                    ..self
                };
                place.sum::<1, 1>();
            }
        }
    }
}
