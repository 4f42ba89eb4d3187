//! The two products of attention, for some rows at once: what is read of keys and values is used
//! for all of them. Each sum is one chain of additions, in the order of elements or of cells.

use std::arch::x86_64::*;

use super::{GROUP, LANES};
use crate::data::attention::BLOCK;
use crate::x86::counts::with_count;

/// Rows that are computed together at most: twice as many sums, and what they are of, fit in the
/// registers.
pub(super) const ROWS: usize = 6;
/// Vectors that are computed for each row at once: those of the cells of a group, or of some
/// elements of values.
const VECTORS: usize = GROUP / LANES;

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
    // SAFETY: as the caller promises.
    unsafe {
        with_count!(rows, R in [1 2 3 4 5 6], score_rows::<R>(size, queries, keys, scores));
    }
}

#[target_feature(enable = "avx2,fma")]
unsafe fn score_rows<const R: usize>(
    size: usize,
    queries: *const f32,
    keys: *const f32,
    scores: *mut f32,
) {
    let mut sums = [[_mm256_setzero_ps(); VECTORS]; R];
    // SAFETY: as the caller promises.
    unsafe {
        for index in 0..size {
            let mut key = [_mm256_setzero_ps(); VECTORS];
            for v in 0..VECTORS {
                key[v] = _mm256_loadu_ps(keys.add(index * GROUP + v * LANES));
            }
            for r in 0..R {
                let query = _mm256_broadcast_ss(&*queries.add(r * size + index));
                for v in 0..VECTORS {
                    sums[r][v] = _mm256_fmadd_ps(key[v], query, sums[r][v]);
                }
            }
        }
        for r in 0..R {
            for v in 0..VECTORS {
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
    for first in (0..stride).step_by(VECTORS * LANES) {
        // SAFETY: as the caller promises.
        unsafe {
            let (values, sums) = (values.add(first), sums.add(first));
            with_count!(rows, R in [1 2 3 4 5 6], sum_rows::<R>(stride, count, values, weights, sums));
        }
    }
}

#[target_feature(enable = "avx2,fma")]
unsafe fn sum_rows<const R: usize>(
    stride: usize,
    count: usize,
    values: *const f32,
    weights: *const f32,
    sums: *mut f32,
) {
    let mut totals = [[_mm256_setzero_ps(); VECTORS]; R];
    // SAFETY: as the caller promises.
    unsafe {
        for r in 0..R {
            for v in 0..VECTORS {
                totals[r][v] = _mm256_loadu_ps(sums.add(r * stride + v * LANES));
            }
        }
        for cell in 0..count {
            let mut value = [_mm256_setzero_ps(); VECTORS];
            for v in 0..VECTORS {
                value[v] = _mm256_loadu_ps(values.add(cell * stride + v * LANES));
            }
            for r in 0..R {
                let weight = _mm256_broadcast_ss(&*weights.add(r * BLOCK + cell));
                for v in 0..VECTORS {
                    totals[r][v] = _mm256_fmadd_ps(value[v], weight, totals[r][v]);
                }
            }
        }
        for r in 0..R {
            for v in 0..VECTORS {
                _mm256_storeu_ps(sums.add(r * stride + v * LANES), totals[r][v]);
            }
        }
    }
}
