//! Quantizing activations with AVX2, eight values at a time.

use std::arch::x86_64::*;

use crate::data::activation::{Integers, Layout};
use crate::data::panel::BLOCK;

/// Quantizes one row, to the bits that plain Rust gives.
///
/// # Safety
/// The CPU must have AVX2.
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn row(layout: Layout, source: &[f32], row: &mut [u8]) {
    // SAFETY: the CPU has the instructions.
    layout.quantize_blocks(source, row, |block| unsafe { integers(block) });
}

#[target_feature(enable = "avx2")]
#[inline]
unsafe fn integers(source: &[f32; BLOCK]) -> Integers {
    // SAFETY: a block is four times eight values.
    let eights: [__m256; 4] =
        std::array::from_fn(|eight| unsafe { _mm256_loadu_ps(source.as_ptr().add(8 * eight)) });
    let sign = _mm256_set1_ps(-0.0);
    let infinity = _mm256_set1_ps(f32::INFINITY);
    let mut finite = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
    let mut largest = _mm256_setzero_ps();
    for eight in eights {
        let size = _mm256_andnot_ps(sign, eight);
        // Neither infinity nor NaN is below it.
        finite = _mm256_and_ps(finite, _mm256_cmp_ps::<_CMP_LT_OQ>(size, infinity));
        largest = _mm256_max_ps(largest, size);
    }
    let Some((factor, scale)) =
        Integers::factor(largest_of(largest), _mm256_movemask_ps(finite) == 0xff)
    else {
        return Integers::zero(f32::NAN);
    };
    let factor = _mm256_set1_ps(factor);
    let eights = eights.map(|eight| _mm256_cvtps_epi32(_mm256_mul_ps(eight, factor)));
    let sums = [(0, 1), (2, 3)].map(|(a, b)| sum_of(_mm256_add_epi32(eights[a], eights[b])));
    // Packing takes the lower lanes first, then the upper ones: fours of the block in the order 0,
    // 2, 4, 6, 1, 3, 5, 7.
    let bytes = _mm256_packs_epi16(
        _mm256_packs_epi32(eights[0], eights[1]),
        _mm256_packs_epi32(eights[2], eights[3]),
    );
    let bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    let mut values = [0; BLOCK];
    // SAFETY: there is room for a vector of bytes.
    unsafe { _mm256_storeu_si256(values.as_mut_ptr().cast(), bytes) };
    Integers {
        values,
        scale,
        sums,
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn largest_of(numbers: __m256) -> f32 {
    let four = _mm_max_ps(
        _mm256_castps256_ps128(numbers),
        _mm256_extractf128_ps::<1>(numbers),
    );
    let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
}

#[target_feature(enable = "avx2")]
#[inline]
fn sum_of(integers: __m256i) -> i32 {
    let four = _mm_add_epi32(
        _mm256_castsi256_si128(integers),
        _mm256_extracti128_si256::<1>(integers),
    );
    let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
    _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two)))
}
