//! Many rows: scores, weights and sums of a tile of them.

use std::arch::x86_64::*;
use std::ops::Range;

use super::super::TokenRun;
use super::super::seen::{SeenCells, common};
use super::padded;
use super::state::{Lanes, SoftmaxState, add_product, cap_scores, weigh};

/// Vectors of a tile: what is read of a key or a value is used for all of them.
pub(super) const WIDE: usize = 2;
/// Cells, or elements of values, that are computed together.
const AT_ONCE: usize = 8;
/// Cells whose values and weights stay in L1 while all elements of their values are
/// summed.
const NEAR: usize = 64;

/// A tile, and the cells of a block.
pub(super) struct Tile<'a> {
    pub(super) run: &'a TokenRun<'a>,
    pub(super) rows: Range<usize>,
    /// First cell of the block.
    pub(super) first: usize,
    /// The cells whose keys and values follow.
    pub(super) cells: &'a [u16],
    /// Cells that the tokens of the run see.
    pub(super) seen: &'a [SeenCells],
    pub(super) keys: *const f32,
    pub(super) values: *const f32,
    /// By element, a vector for every sixteen rows.
    pub(super) queries: &'a [Lanes],
}

impl Tile<'_> {
    /// Adds the cells to the states and the sums of the rows.
    ///
    /// # Safety
    /// The buffers must be of the run's shape.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn add(
        &self,
        scores: &mut [Lanes],
        added: &mut [Lanes],
        states: &mut [SoftmaxState],
        sums: &mut [Lanes],
    ) {
        let attention = self.run.attention;
        let group = attention.group();
        let tokens = self.rows.start / group..(self.rows.end - 1) / group + 1;
        let (any, plain) = common(&self.seen[tokens]);
        let sees = |cell: &u16| any.has(*cell);
        let Some(from) = self.cells.iter().position(sees) else {
            return;
        };
        let last = self.cells.iter().rposition(sees).unwrap_or(from);
        let places = from / AT_ONCE * AT_ONCE..last + 1;
        // SAFETY: as the caller promises. Places behind the last cell are inside of the block, and
        // hold what was there before.
        unsafe { self.score(places.clone(), scores) };
        let of_places = &mut scores[places.start * WIDE..places.end * WIDE];
        if attention.cap != 0.0 {
            cap_scores(attention.cap, of_places);
        }
        let cells = &self.cells[places.clone()];
        for (cell, scores) in cells.iter().zip(of_places.chunks_exact_mut(WIDE)) {
            if !plain.has(*cell) {
                let cell = self.first + usize::from(*cell);
                self.run.hide(self.rows.clone(), cell, scores, |row| row);
            }
        }
        let here = weigh::<WIDE>(of_places);
        let mut factors = [(_mm512_setzero_ps(), _mm512_setzero_ps()); WIDE];
        for v in 0..WIDE {
            factors[v] = states[v].add(here[v].0, here[v].1);
        }
        // SAFETY: as the caller promises.
        unsafe { self.sum(places, scores, added, sums, factors) };
    }

    /// The dot products of queries and keys.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn score(&self, places: Range<usize>, scores: &mut [Lanes]) {
        let size = self.run.attention.key_size;
        let stride = padded(size);
        for place in places.step_by(AT_ONCE) {
            let mut sums = [[_mm512_setzero_ps(); WIDE]; AT_ONCE];
            // SAFETY: there are as many keys, scores and elements.
            unsafe {
                let keys = self.keys.add(place * stride);
                for index in 0..size {
                    let mut queries = [_mm512_setzero_ps(); WIDE];
                    for v in 0..WIDE {
                        queries[v] = self.queries.get_unchecked(index * WIDE + v).load();
                    }
                    for m in 0..AT_ONCE {
                        let key = _mm512_set1_ps(*keys.add(m * stride + index));
                        for v in 0..WIDE {
                            add_product(&mut sums[m][v], key, queries[v]);
                        }
                    }
                }
                for m in 0..AT_ONCE {
                    for v in 0..WIDE {
                        let score = scores.get_unchecked_mut((place + m) * WIDE + v);
                        score.store(sums[m][v]);
                    }
                }
            }
        }
    }

    /// Adds values by their weights, with the factors of the sums before and of these.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn sum(
        &self,
        places: Range<usize>,
        weights: &[Lanes],
        added: &mut [Lanes],
        sums: &mut [Lanes],
        factors: [(__m512, __m512); WIDE],
    ) {
        let stride = padded(self.run.attention.value_size);
        for first in places.clone().step_by(NEAR) {
            let near = first..(first + NEAR).min(places.end);
            for index in (0..stride).step_by(AT_ONCE) {
                let added = &mut added[index * WIDE..][..AT_ONCE * WIDE];
                let mut totals = [[_mm512_setzero_ps(); WIDE]; AT_ONCE];
                if first > places.start {
                    for m in 0..AT_ONCE {
                        for v in 0..WIDE {
                            totals[m][v] = added[m * WIDE + v].load();
                        }
                    }
                }
                // SAFETY: there are as many values, weights and elements.
                unsafe {
                    let values = self.values.add(index);
                    for place in near.clone() {
                        let mut weight = [_mm512_setzero_ps(); WIDE];
                        for v in 0..WIDE {
                            weight[v] = weights.get_unchecked(place * WIDE + v).load();
                        }
                        for m in 0..AT_ONCE {
                            let value = _mm512_set1_ps(*values.add(place * stride + m));
                            for v in 0..WIDE {
                                add_product(&mut totals[m][v], value, weight[v]);
                            }
                        }
                    }
                }
                for m in 0..AT_ONCE {
                    for v in 0..WIDE {
                        added[m * WIDE + v].store(totals[m][v]);
                    }
                }
            }
        }
        for (sums, added) in sums.chunks_exact_mut(WIDE).zip(added.chunks_exact(WIDE)) {
            for v in 0..WIDE {
                let old = _mm512_mul_ps(sums[v].load(), factors[v].0);
                sums[v].store(_mm512_fmadd_ps(added[v].load(), factors[v].1, old));
            }
        }
    }
}
