//! Few rows, as when a sequence decodes: most of the time goes into reading keys and values, which
//! are used as they come.
//!
//! The blocks of cells of a token can be computed apart, by several threads, and merged later: to
//! the same bits, as each block is always computed by itself first.

use std::arch::x86_64::*;

use super::super::{TokenRun, chunks};
use super::exp::exp2;
use super::rows::mixed_places;
use super::state::{Lanes, SoftmaxState, add_product, anchor, cap_scores, gather};
use super::value_block::ValueBlock;
use super::{AttentionSpace, LANES, SPACE, common, padded, row_pointers};
use crate::data::attention::{Attention, BLOCK};

/// Vectors of scores that are computed together.
const AT_ONCE: usize = 16;
/// Distance in cells at which keys are prefetched.
const AHEAD: usize = 32;
/// Cells whose values stay in L1.
const VALUES_AT_ONCE: usize = 32;
/// Vectors of a value that are summed together.
const VECTORS: usize = 4;
/// Rows of queries that are summed together.
const ROWS: usize = 6;

/// A run of few rows. A vector has the scores of one cell, or of two or four if rows are few
/// enough: those of a row are side by side.
pub(super) struct Narrow<'a> {
    run: &'a TokenRun<'a>,
    rows: usize,
}

impl<'a> Narrow<'a> {
    pub(super) fn new(run: &'a TokenRun<'a>) -> Self {
        let rows = run.rows();
        debug_assert!(rows <= LANES);
        Self { run, rows }
    }

    /// Cells of a vector of scores.
    fn mixed(&self) -> usize {
        match self.rows {
            0..=4 => 4,
            5..=8 => 2,
            _ => 1,
        }
    }

    /// Brings queries into order and empties the sums: vectors of each row in turn.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn begin(&self, space: &mut AttentionSpace, sinks: bool) {
        let attention = self.run.attention;
        let keys = attention.key_size;
        let values = padded(attention.value_size);
        space.queries.resize(keys, Lanes::ZERO);
        space
            .keys
            .resize(AT_ONCE * 4 * padded(keys) / LANES, Lanes::ZERO);
        space
            .values
            .resize(VALUES_AT_ONCE * values / LANES, Lanes::ZERO);
        space.added.resize(self.rows * values / LANES, Lanes::ZERO);
        space.scores.resize(BLOCK, Lanes::ZERO);
        self.empty(space, sinks);
        let sources = row_pointers(0..self.rows, |row| self.run.query(row));
        // SAFETY: rows of queries have so many elements, and there is a vector for each.
        unsafe {
            gather(
                &sources,
                keys,
                attention.factor(),
                space.queries.as_mut_ptr(),
                1,
            );
        };
        let mixed = self.mixed() as i32;
        let rows = lanes(|lane| lane / mixed);
        for queries in &mut space.queries {
            queries.store(_mm512_permutexvar_ps(rows, queries.load()));
        }
    }

    fn empty(&self, space: &mut AttentionSpace, sinks: bool) {
        let values = padded(self.run.attention.value_size) / LANES;
        space.sums.clear();
        space.sums.resize(self.rows * values, Lanes::ZERO);
        space.states.clear();
        space
            .states
            .push(SoftmaxState::new(self.run, 0..self.rows, sinks));
    }

    /// Adds the cells of a block, the first of which is `first`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn add(&self, space: &mut AttentionSpace, first: usize) {
        // SAFETY: as the caller promises.
        unsafe {
            self.run.look(space, first);
            match self.mixed() {
                4 => self.add_mixed::<4>(space, first),
                2 => self.add_mixed::<2>(space, first),
                _ => self.add_mixed::<1>(space, first),
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn add_mixed<const MIXED: usize>(&self, space: &mut AttentionSpace, first: usize) {
        let attention = self.run.attention;
        let count = space.cells.len();
        if count == 0 {
            return;
        }
        // SAFETY: as the caller promises.
        unsafe {
            match padded(attention.key_size) {
                64 => self.score::<MIXED, 64>(space, first),
                128 => self.score::<MIXED, 128>(space, first),
                _ => self.score::<MIXED, 0>(space, first),
            }
        }
        let scores = &mut space.scores[..count.div_ceil(MIXED)];
        if attention.cap != 0.0 {
            cap_scores(attention.cap, scores);
        }
        let (any, plain) = common(&space.seen);
        if any != plain {
            for (place, cell) in space.cells.iter().enumerate() {
                if !plain.has(*cell) {
                    let cell = first + usize::from(*cell);
                    let at = |row| row * MIXED + place % MIXED;
                    let scores = &mut scores[place / MIXED..];
                    self.run.hide(0..self.rows, cell, scores, at);
                }
            }
        }
        for place in count..scores.len() * MIXED {
            for row in 0..LANES / MIXED {
                scores[place / MIXED].0[row * MIXED + place % MIXED] = f32::NEG_INFINITY;
            }
        }
        let (largest, total) = weigh::<MIXED>(scores);
        let (before, here) = space.states[0].add(largest, total);
        let mut factors = [Lanes::ZERO; 2];
        factors[0].store(before);
        factors[1].store(here);
        // SAFETY: as the caller promises.
        unsafe { self.sum::<MIXED>(space, first) };
        self.merge(&mut space.sums, &space.added, &factors);
    }

    /// The dot products of queries and keys; `STRIDE` elements from one key to the next, or as many
    /// as there are if it is 0.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn score<const MIXED: usize, const STRIDE: usize>(
        &self,
        space: &mut AttentionSpace,
        first: usize,
    ) {
        let keys = self.run.keys(first);
        let stride = if STRIDE > 0 {
            STRIDE
        } else {
            padded(keys.size)
        };
        let room: *mut f32 = space.keys.as_mut_ptr().cast();
        for (index, cells) in space.cells.chunks(AT_ONCE * MIXED).enumerate() {
            let mut ahead = keys.ahead(cells, AHEAD);
            // SAFETY: there is room for so many keys.
            unsafe { keys.widen::<MIXED>(cells, room) };
            let mut sums = [_mm512_setzero_ps(); AT_ONCE];
            for (number, queries) in space.queries.iter().enumerate() {
                ahead.fetch(AT_ONCE * MIXED, keys.size);
                let queries = queries.load();
                let vectors = number / LANES * LANES * MIXED;
                // SAFETY: there are as many elements, up to whole vectors, of so many keys; those
                // that are absent are what was there before.
                unsafe {
                    let key = room.add(vectors + const { mixed_places::<MIXED>() }[number % LANES]);
                    for m in 0..AT_ONCE {
                        let key = broadcast::<MIXED>(key.add(m * MIXED * stride));
                        add_product(&mut sums[m], key, queries);
                    }
                }
            }
            let scores = &mut space.scores[index * AT_ONCE..];
            for (score, sum) in scores.iter_mut().zip(sums) {
                score.store(sum);
            }
        }
    }

    /// The sums of values by their weights.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn sum<const MIXED: usize>(&self, space: &mut AttentionSpace, first: usize) {
        let values = self.run.values(first);
        let vectors = padded(values.size) / LANES;
        space.added.fill(Lanes::ZERO);
        let scores = space.scores.chunks(VALUES_AT_ONCE / MIXED);
        for (cells, weights) in space.cells.chunks(VALUES_AT_ONCE).zip(scores) {
            // SAFETY: there is room for so many values.
            unsafe { values.widen::<1>(cells, space.values.as_mut_ptr().cast()) };
            let mut ahead = values.ahead(cells, VALUES_AT_ONCE);
            for rows in chunks(self.rows, ROWS) {
                let added = &mut space.added[rows.start * vectors..rows.end * vectors];
                for first in (0..vectors).step_by(VECTORS) {
                    let place = ValueBlock::<MIXED> {
                        values: &space.values[first..],
                        vectors,
                        cells: cells.len(),
                        weights,
                        row: rows.start,
                        added: &mut added[first..],
                        ahead: &mut ahead,
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

    /// Divides the sums by the weights and writes the results.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn end(&self, space: &mut AttentionSpace) {
        let size = self.run.attention.value_size;
        let shares = space.states[0].shares();
        let rows = space.sums.chunks_exact(padded(size) / LANES);
        for (row, sums) in rows.enumerate() {
            let share = _mm512_set1_ps(shares.0[row]);
            for (index, sum) in sums.iter().enumerate() {
                let present = u16::MAX >> (LANES - (size - index * LANES).min(LANES));
                // SAFETY: results have their places, which are the caller's alone, and what is
                // absent is not written.
                unsafe {
                    let place = self.run.out(row).add(index * LANES);
                    _mm512_mask_storeu_ps(place, present, _mm512_mul_ps(sum.load(), share));
                }
            }
        }
    }
}

/// The same elements of `MIXED` keys for each row.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn broadcast<const MIXED: usize>(keys: *const f32) -> __m512 {
    // SAFETY: as the caller promises.
    unsafe {
        match MIXED {
            4 => _mm512_broadcast_f32x4(_mm_loadu_ps(keys)),
            2 => _mm512_castpd_ps(_mm512_set1_pd(keys.cast::<f64>().read_unaligned())),
            _ => _mm512_set1_ps(*keys),
        }
    }
}

/// Replaces scores by weights relative to the largest of a row, and gives that and their sums,
/// added in the order of cells.
#[inline]
#[target_feature(enable = "avx512f")]
fn weigh<const MIXED: usize>(scores: &mut [Lanes]) -> (__m512, __m512) {
    let mut largest = _mm512_set1_ps(f32::NEG_INFINITY);
    for scores in scores.iter() {
        largest = _mm512_max_ps(largest, scores.load());
    }
    if MIXED > 1 {
        largest = _mm512_max_ps(largest, _mm512_permute_ps::<0b10_11_00_01>(largest));
    }
    if MIXED > 2 {
        largest = _mm512_max_ps(largest, _mm512_permute_ps::<0b01_00_11_10>(largest));
    }
    let anchor = anchor(largest);
    let mut total = _mm512_setzero_ps();
    for scores in scores.iter_mut() {
        let weights = exp2(_mm512_sub_ps(scores.load(), anchor));
        scores.store(weights);
        if MIXED == 1 {
            total = _mm512_add_ps(total, weights);
        }
        if MIXED == 2 {
            total = _mm512_add_ps(total, _mm512_permute_ps::<0b10_10_00_00>(weights));
            total = _mm512_add_ps(total, _mm512_permute_ps::<0b11_11_01_01>(weights));
        }
        if MIXED == 4 {
            total = _mm512_add_ps(total, _mm512_permute_ps::<0b00_00_00_00>(weights));
            total = _mm512_add_ps(total, _mm512_permute_ps::<0b01_01_01_01>(weights));
            total = _mm512_add_ps(total, _mm512_permute_ps::<0b10_10_10_10>(weights));
            total = _mm512_add_ps(total, _mm512_permute_ps::<0b11_11_11_11>(weights));
        }
    }
    let firsts = lanes(|lane| lane * MIXED as i32 % LANES as i32);
    (
        _mm512_permutexvar_ps(firsts, largest),
        _mm512_permutexvar_ps(firsts, total),
    )
}

/// An element for each of sixteen lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn lanes(number: impl Fn(i32) -> i32) -> __m512i {
    let numbers: [i32; LANES] = std::array::from_fn(|lane| number(lane as i32));
    // SAFETY: sixteen elements.
    unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) }
}

/// Computes a block of cells of a token by itself, for the heads that share one of a key.
///
/// # Safety
/// As for [`super::compute`]; `partials` must have room for [`Attention::partial`] for each block
/// of the token, aligned to 64 bytes.
pub(crate) unsafe fn compute_block(
    attention: &Attention,
    place: (usize, usize, usize),
    block: usize,
    partials: *mut u8,
) {
    let run = TokenRun::for_token(attention, place);
    SPACE.with_borrow_mut(|space| {
        // SAFETY: as the caller promises.
        unsafe {
            let narrow = Narrow::new(&run);
            narrow.begin(space, false);
            narrow.add(space, block * BLOCK);
            let room = partials.cast::<Lanes>();
            let room = room.add(block * attention.partial() / LANES);
            room.write(space.states[0].largest);
            room.add(1).write(space.states[0].total);
            let sums = space.sums.as_ptr();
            sums.copy_to_nonoverlapping(room.add(2), space.sums.len());
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
    place: (usize, usize, usize),
    partials: *const u8,
) {
    let run = TokenRun::for_token(attention, place);
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
