//! Few rows, as when a sequence decodes: most of the time goes into reading keys and values, which are used as they come.
//!
//! The blocks of cells of a token can be computed apart, by several threads, and merged later: to the same bits, as each block is always computed
//! by itself first.

use std::arch::x86_64::*;
use std::ops::Range;

use super::rows::{fetch, widen};
use super::state::{Lanes, State, cap_scores, gather, pin, weigh};
use super::{LANES, Run, SPACE, Space, common, of_rows, padded};
use crate::attention::{Attention, BLOCK};

/// Cells whose scores are computed together.
const AT_ONCE: usize = 16;
/// So many cells ahead keys are fetched.
const AHEAD: usize = 32;
/// Cells whose values are in the first cache.
const VALUES_AT_ONCE: usize = 32;
/// Vectors of a value that are summed together.
const VECTORS: usize = 4;
/// Rows that are.
const ROWS: usize = 6;

/// A run of few rows.
pub(super) struct Narrow<'a> {
    run: &'a Run<'a>,
    rows: usize,
}

impl<'a> Narrow<'a> {
    pub(super) fn new(run: &'a Run<'a>) -> Self {
        let rows = run.rows();
        debug_assert!(rows <= LANES);
        Self { run, rows }
    }

    /// Brings queries into order and empties the sums: vectors of each row in turn.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn begin(&self, space: &mut Space, sinks: bool) {
        let attention = self.run.attention;
        let keys = attention.key_size;
        space.queries.resize(keys, Lanes::ZERO);
        space
            .keys
            .resize(AT_ONCE * padded(keys) / LANES, Lanes::ZERO);
        let values = padded(attention.value_size);
        space
            .values
            .resize(VALUES_AT_ONCE * values / LANES, Lanes::ZERO);
        space.added.resize(self.rows * values / LANES, Lanes::ZERO);
        space.scores.resize(BLOCK, Lanes::ZERO);
        self.empty(space, sinks);
        let sources = of_rows(0..self.rows, |row| self.run.query(row));
        // SAFETY: rows of queries have so many numbers, and there is a vector for each.
        unsafe {
            gather(
                &sources,
                keys,
                attention.factor(),
                space.queries.as_mut_ptr(),
                1,
            );
        };
    }

    fn empty(&self, space: &mut Space, sinks: bool) {
        let values = padded(self.run.attention.value_size) / LANES;
        space.sums.clear();
        space.sums.resize(self.rows * values, Lanes::ZERO);
        space.states.clear();
        space.states.push(State::new(self.run, 0..self.rows, sinks));
    }

    /// Adds the cells of a block, the first of which is `first`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn add(&self, space: &mut Space, first: usize) {
        let attention = self.run.attention;
        // SAFETY: as the caller promises.
        unsafe { self.run.look(space, first) };
        if space.cells.is_empty() {
            return;
        }
        // SAFETY: as the caller promises.
        unsafe {
            match padded(attention.key_size) {
                64 => self.score::<64>(space, first),
                128 => self.score::<128>(space, first),
                _ => self.score::<0>(space, first),
            }
        }
        let scores = &mut space.scores[..space.cells.len()];
        if attention.cap != 0.0 {
            cap_scores(attention.cap, scores);
        }
        let (_, plain) = common(&space.seen);
        for (cell, score) in space.cells.iter().zip(scores.chunks_exact_mut(1)) {
            if !plain.has(*cell) {
                let cell = first + usize::from(*cell);
                self.run.hide(0..self.rows, cell, score);
            }
        }
        let [(largest, total)] = weigh::<1>(scores);
        let (before, here) = space.states[0].add(largest, total);
        let mut factors = [Lanes::ZERO; 2];
        factors[0].store(before);
        factors[1].store(here);
        // SAFETY: as the caller promises.
        unsafe { self.sum(space, first) };
        self.merge(&mut space.sums, &space.added, &factors);
    }

    /// The products of queries and keys; `STRIDE` numbers from one key to the next, or as many as there are if it is 0.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn score<const STRIDE: usize>(&self, space: &mut Space, first: usize) {
        let attention = self.run.attention;
        let size = attention.key_size;
        let stride = if STRIDE > 0 { STRIDE } else { padded(size) };
        for (index, cells) in space.cells.chunks(AT_ONCE).enumerate() {
            let mut sums = [[_mm512_setzero_ps()]; AT_ONCE];
            // SAFETY: there is room for so many keys, and as many scores and numbers; keys that are absent are what was there before.
            unsafe {
                let keys = space.keys.as_mut_ptr().cast::<f32>();
                for (place, cell) in cells.iter().enumerate() {
                    let cell = first + usize::from(*cell);
                    let source = self.run.cell(&attention.keys, cell);
                    let room = keys.add(place * stride);
                    widen(attention.key_numbers, source, size, room);
                    // Keys that come soon, and the values that are added when the keys of the block are done.
                    let ahead = self.run.cell(&attention.keys, cell + AHEAD);
                    fetch(attention.key_numbers, ahead, size);
                    let values = self.run.cell(&attention.values, cell);
                    fetch(attention.value_numbers, values, attention.value_size);
                }
                for index in 0..size {
                    let queries = space.queries.get_unchecked(index).load();
                    for m in 0..AT_ONCE {
                        let key = _mm512_set1_ps(*keys.add(m * stride + index));
                        sums[m][0] = _mm512_fmadd_ps(key, queries, sums[m][0]);
                        pin(&mut sums[m]);
                    }
                }
            }
            let scores = &mut space.scores[index * AT_ONCE..];
            for (score, [sum]) in scores.iter_mut().zip(sums) {
                score.store(sum);
            }
        }
    }

    /// The sums of values by their weights.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn sum(&self, space: &mut Space, first: usize) {
        let attention = self.run.attention;
        let size = attention.value_size;
        let vectors = padded(size) / LANES;
        space.added.fill(Lanes::ZERO);
        let scores = space.scores.chunks(VALUES_AT_ONCE);
        for (cells, weights) in space.cells.chunks(VALUES_AT_ONCE).zip(scores) {
            for (place, cell) in cells.iter().enumerate() {
                let source = self.run.cell(&attention.values, first + usize::from(*cell));
                // SAFETY: there is room for so many values.
                unsafe {
                    let room = space.values.as_mut_ptr().add(place * vectors);
                    widen(attention.value_numbers, source, size, room.cast());
                }
            }
            let weights = &weights[..cells.len()];
            for rows in chunks(self.rows, ROWS) {
                let added = &mut space.added[rows.start * vectors..rows.end * vectors];
                for first in (0..vectors).step_by(VECTORS) {
                    let place = Place {
                        values: &space.values[first..],
                        vectors,
                        weights,
                        row: rows.start,
                        added: &mut added[first..],
                    };
                    let four = first + VECTORS <= vectors;
                    match (rows.len(), four) {
                        (1, true) => place.sum::<1, VECTORS>(),
                        (2, true) => place.sum::<2, VECTORS>(),
                        (3, true) => place.sum::<3, VECTORS>(),
                        (4, true) => place.sum::<4, VECTORS>(),
                        (5, true) => place.sum::<5, VECTORS>(),
                        (ROWS, true) => place.sum::<ROWS, VECTORS>(),
                        _ => place.sum_each(rows.len(), vectors - first),
                    }
                }
            }
        }
    }

    /// Adds the sums of a block, with factors of the sums before and of these.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn merge(&self, sums: &mut [Lanes], added: &[Lanes], factors: &[Lanes; 2]) {
        let of_row = padded(self.run.attention.value_size) / LANES;
        let rows = sums
            .chunks_exact_mut(of_row)
            .zip(added.chunks_exact(of_row));
        for (row, (sums, added)) in rows.enumerate() {
            let before = _mm512_set1_ps(factors[0].0[row]);
            let here = _mm512_set1_ps(factors[1].0[row]);
            for (sum, added) in sums.iter_mut().zip(added) {
                let old = _mm512_mul_ps(sum.load(), before);
                sum.store(_mm512_fmadd_ps(added.load(), here, old));
            }
        }
    }

    /// Writes the results.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn end(&self, space: &mut Space) {
        let size = self.run.attention.value_size;
        let shares = space.states[0].shares();
        let rows = space.sums.chunks_exact(padded(size) / LANES);
        for (row, sums) in rows.enumerate() {
            let share = _mm512_set1_ps(shares.0[row]);
            for (index, sum) in sums.iter().enumerate() {
                let present = u16::MAX >> (LANES - (size - index * LANES).min(LANES));
                // SAFETY: results have their places, which are the caller's alone, and what is absent is not written.
                unsafe {
                    let place = self.run.out(row).add(index * LANES);
                    _mm512_mask_storeu_ps(place, present, _mm512_mul_ps(sum.load(), share));
                }
            }
        }
    }
}

/// Where some rows' sums of some vectors of values are.
struct Place<'a> {
    /// The first of these vectors, and those of the following cells.
    values: &'a [Lanes],
    /// Vectors of a value.
    vectors: usize,
    /// The weights of cells, of sixteen rows.
    weights: &'a [Lanes],
    /// The first of the rows.
    row: usize,
    added: &'a mut [Lanes],
}

impl Place<'_> {
    /// Adds values by the weights of `R` rows, `V` vectors of them.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn sum<const R: usize, const V: usize>(self) {
        let mut sums = [[_mm512_setzero_ps(); V]; R];
        for r in 0..R {
            for v in 0..V {
                sums[r][v] = self.added[r * self.vectors + v].load();
            }
        }
        for (values, weights) in self.values.chunks(self.vectors).zip(self.weights) {
            let values = &values[..V];
            let weights = &weights.0[self.row..][..R];
            for r in 0..R {
                let weight = _mm512_set1_ps(weights[r]);
                for v in 0..V {
                    sums[r][v] = _mm512_fmadd_ps(values[v].load(), weight, sums[r][v]);
                }
                pin(&mut sums[r]);
            }
        }
        for r in 0..R {
            for v in 0..V {
                self.added[r * self.vectors + v].store(sums[r][v]);
            }
        }
    }

    /// The same for numbers of rows and vectors that are rare.
    #[target_feature(enable = "avx512f")]
    fn sum_each(self, rows: usize, vectors: usize) {
        for row in 0..rows {
            for vector in 0..vectors {
                let place = Place {
                    values: &self.values[vector..],
                    row: self.row + row,
                    added: &mut self.added[row * self.vectors + vector..],
                    ..self
                };
                place.sum::<1, 1>();
            }
        }
    }
}

/// A range in pieces that are about as large as each other, `most` at most.
fn chunks(all: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let count = all.div_ceil(most);
    (0..count).map(move |index| all * index / count..all * (index + 1) / count)
}

/// Computes blocks of cells of a token by themselves, for the heads that share one of a key.
///
/// # Safety
/// As for [`super::compute`]; `partials` must have room for [`Attention::partial`] for each block of the token, aligned to 64 bytes.
pub(crate) unsafe fn compute_block(
    attention: &Attention,
    (kv_head, stream, token): (usize, usize, usize),
    blocks: Range<usize>,
    partials: *mut u8,
) {
    let run = Run {
        attention,
        kv_head,
        stream,
        tokens: token..token + 1,
    };
    SPACE.with_borrow_mut(|space| {
        // SAFETY: as the caller promises.
        unsafe {
            let narrow = Narrow::new(&run);
            narrow.begin(space, false);
            for block in blocks {
                narrow.empty(space, false);
                narrow.add(space, block * BLOCK);
                let size = attention.partial() / LANES;
                let room = partials.cast::<Lanes>().add(block * size);
                room.write(space.states[0].largest);
                room.add(1).write(space.states[0].total);
                let sums = space.sums.as_ptr();
                sums.copy_to_nonoverlapping(room.add(2), space.sums.len());
            }
        }
    });
}

/// Merges the blocks of a token and writes its results.
///
/// # Safety
/// As for [`compute_block`], which has computed all blocks.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(crate) unsafe fn merge(
    attention: &Attention,
    (kv_head, stream, token): (usize, usize, usize),
    partials: *const u8,
) {
    let run = Run {
        attention,
        kv_head,
        stream,
        tokens: token..token + 1,
    };
    SPACE.with_borrow_mut(|space| {
        let narrow = Narrow::new(&run);
        narrow.empty(space, true);
        for block in 0..attention.cells.div_ceil(BLOCK) {
            let size = attention.partial() / LANES;
            // SAFETY: the block was computed.
            let kept = unsafe {
                let first = partials.cast::<Lanes>().add(block * size);
                std::slice::from_raw_parts(first, size)
            };
            let (before, here) = space.states[0].add(kept[0].load(), kept[1].load());
            let mut factors = [Lanes::ZERO; 2];
            factors[0].store(before);
            factors[1].store(here);
            narrow.merge(&mut space.sums, &kept[2..], &factors);
        }
        // SAFETY: as the caller promises.
        unsafe { narrow.end(space) };
    });
}
