//! Steps that all units share with AVX2: reads of activations, and scaled sums.

use std::arch::x86_64::*;

use crate::data::activation::ORIGIN;
use crate::data::panel::{BLOCK, ROWS};

/// Number of rows of a vector.
pub(super) const LANES: usize = 8;
/// Vectors of a panel's rows.
pub(super) const VECTORS: usize = ROWS / LANES;

/// Four integers of an activation in every lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn four(row: *const u8, at: usize) -> __m256i {
    // SAFETY: as the caller promises.
    _mm256_set1_epi32(unsafe { row.add(at).cast::<i32>().read_unaligned() })
}

/// One of the factors of a block of an activation, in the order of
/// [`Factors`](crate::data::activation::Factors).
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn factor(block: *const u8, number: usize) -> __m256 {
    let at = BLOCK + 4 * number;
    // SAFETY: as the caller promises.
    _mm256_set1_ps(unsafe { block.add(at).cast::<f32>().read_unaligned() })
}

/// The start of the sum of a part of a block: 0 for all of it, 1 for its first half, 2 for its
/// second.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn start(block: *const u8, part: usize, offset: u8) -> __m256i {
    let origin = ORIGIN.to_bits().cast_signed();
    let at = BLOCK + 4 * (1 + part);
    // SAFETY: as the caller promises.
    let start = unsafe { block.add(at).cast::<i32>().read_unaligned() };
    // That is of weights that are 128 too large.
    _mm256_set1_epi32(origin + (start - origin) / 128 * i32::from(offset))
}

/// Reads eight binary16 values as floats.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn halves(values: *const u8) -> __m256 {
    // SAFETY: as the caller promises.
    _mm256_cvtph_ps(unsafe { _mm_loadu_si128(values.cast()) })
}

/// Adds a sum, times the factors of the rows and of the activation, to a total.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn add_scaled(
    sum: __m256i,
    scales: __m256,
    block: *const u8,
    total: &mut __m256,
) {
    let offsets = _mm256_mul_ps(scales, _mm256_set1_ps(-ORIGIN));
    let sum = _mm256_fmadd_ps(_mm256_castsi256_ps(sum), scales, offsets);
    // SAFETY: as the caller promises.
    *total = _mm256_fmadd_ps(sum, unsafe { factor(block, 0) }, *total);
}

/// Takes minima, times the sum of the activation's values, from a total.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn take_minima(minima: __m256, block: *const u8, total: &mut __m256) {
    // SAFETY: as the caller promises.
    *total = _mm256_fnmadd_ps(minima, unsafe { factor(block, 4) }, *total);
}
