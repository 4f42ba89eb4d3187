//! The two products of attention, for some rows at once: what is read of keys and values is used
//! for all of them. Each sum is one chain of additions, in the order of elements or of cells.

use std::arch::x86_64::*;

use super::{GROUP, LANES};
use crate::data::attention::BLOCK;

/// Rows that are computed together at most: twice as many sums, and what they are of, fit in the
/// registers.
pub(super) const ROWS: usize = 6;
/// Writes the dot products of some rows of queries, `size` elements each, and a group of keys
/// that were turned. Scores of rows are [`BLOCK`] apart.
///
/// # Safety
/// There must be as many queries and elements, and room for as many scores.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn score(
    rows: usize,
    size: usize,
    queries: *const f32,
    keys: *const f32,
    scores: *mut f32,
) {
    // With few rows, more cells: chains of additions are too few otherwise.
    let vectors = if rows <= 2 { 4 } else { 2 };
    for first in (0..GROUP).step_by(vectors * LANES) {
        // SAFETY: as the caller promises.
        unsafe {
            let (keys, scores) = (keys.add(first), scores.add(first));
            match rows {
                1 => score_rows::<1, 4>(size, queries, keys, scores),
                2 => score_rows::<2, 4>(size, queries, keys, scores),
                3 => score_rows::<3, 2>(size, queries, keys, scores),
                4 => score_rows::<4, 2>(size, queries, keys, scores),
                5 => score_rows::<5, 2>(size, queries, keys, scores),
                _ => score_rows::<ROWS, 2>(size, queries, keys, scores),
            }
        }
    }
}

#[target_feature(enable = "avx2,fma")]
unsafe fn score_rows<const R: usize, const V: usize>(
    size: usize,
    queries: *const f32,
    keys: *const f32,
    scores: *mut f32,
) {
    let mut sums = [[_mm256_setzero_ps(); V]; R];
    // SAFETY: as the caller promises.
    unsafe {
        for index in 0..size {
            let mut key = [_mm256_setzero_ps(); V];
            for v in 0..V {
                key[v] = _mm256_loadu_ps(keys.add(index * GROUP + v * LANES));
            }
            for r in 0..R {
                let query = _mm256_broadcast_ss(&*queries.add(r * size + index));
                for v in 0..V {
                    sums[r][v] = _mm256_fmadd_ps(key[v], query, sums[r][v]);
                }
            }
        }
        for r in 0..R {
            for v in 0..V {
                _mm256_storeu_ps(scores.add(r * BLOCK + v * LANES), sums[r][v]);
            }
        }
    }
}

/// Adds values, `stride` elements each and a multiple of sixteen, by the weights of some rows to
/// their sums, which are as long. Weights of rows are [`BLOCK`] apart.
///
/// # Safety
/// There must be `count` values, and as many weights of each row.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn sum(
    rows: usize,
    stride: usize,
    count: usize,
    values: *const f32,
    weights: *const f32,
    sums: *mut f32,
) {
    let mut first = 0;
    while first < stride {
        // With few rows, more of each value: chains of additions are too few otherwise.
        let wide = rows <= 3 && first + 4 * LANES <= stride;
        // SAFETY: as the caller promises.
        unsafe {
            let (values, sums) = (values.add(first), sums.add(first));
            match (rows, wide) {
                (1, true) => sum_rows::<1, 4>(stride, count, values, weights, sums),
                (2, true) => sum_rows::<2, 4>(stride, count, values, weights, sums),
                (3, true) => sum_rows::<3, 4>(stride, count, values, weights, sums),
                (1, false) => sum_rows::<1, 2>(stride, count, values, weights, sums),
                (2, false) => sum_rows::<2, 2>(stride, count, values, weights, sums),
                (3, false) => sum_rows::<3, 2>(stride, count, values, weights, sums),
                (4, _) => sum_rows::<4, 2>(stride, count, values, weights, sums),
                (5, _) => sum_rows::<5, 2>(stride, count, values, weights, sums),
                _ => sum_rows::<ROWS, 2>(stride, count, values, weights, sums),
            }
        }
        first += if wide { 4 * LANES } else { 2 * LANES };
    }
}

#[target_feature(enable = "avx2,fma")]
unsafe fn sum_rows<const R: usize, const V: usize>(
    stride: usize,
    count: usize,
    values: *const f32,
    weights: *const f32,
    sums: *mut f32,
) {
    let mut totals = [[_mm256_setzero_ps(); V]; R];
    // SAFETY: as the caller promises.
    unsafe {
        for r in 0..R {
            for v in 0..V {
                totals[r][v] = _mm256_loadu_ps(sums.add(r * stride + v * LANES));
            }
        }
        for cell in 0..count {
            let mut weight = [_mm256_setzero_ps(); R];
            for r in 0..R {
                weight[r] = _mm256_broadcast_ss(&*weights.add(r * BLOCK + cell));
            }
            for v in 0..V {
                let value = _mm256_loadu_ps(values.add(cell * stride + v * LANES));
                for r in 0..R {
                    totals[r][v] = _mm256_fmadd_ps(value, weight[r], totals[r][v]);
                }
            }
        }
        for r in 0..R {
            for v in 0..V {
                _mm256_storeu_ps(sums.add(r * stride + v * LANES), totals[r][v]);
            }
        }
    }
}
