//! Quantizing activations, eight values at a time.

use std::arch::x86_64::*;

use crate::data::activation::{ActivationLayout, Integers};
use crate::data::panel::BLOCK;

/// Quantizes one row, to the bits that plain Rust gives.
///
/// # Safety
/// The CPU must have AVX2.
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn row(layout: ActivationLayout, source: &[f32], row: &mut [u8]) {
    // SAFETY: the CPU has the instructions.
    layout.quantize_blocks(source, row, |block| unsafe { integers(block) });
}

#[target_feature(enable = "avx2")]
#[inline]
unsafe fn integers(source: &[f32; BLOCK]) -> Integers {
    // SAFETY: a block is four times eight values.
    let eights: [__m256; 4] =
        std::array::from_fn(|eight| unsafe { _mm256_loadu_ps(source.as_ptr().add(8 * eight)) });
    // As integers, the bits of absolute values have the same order as the values; infinity and NaN
    // come after all of them.
    let absolute = _mm256_set1_epi32(i32::MAX);
    let [a, b, c, d] = eights.map(|eight| _mm256_and_si256(_mm256_castps_si256(eight), absolute));
    let largest = _mm256_max_epu32(_mm256_max_epu32(a, b), _mm256_max_epu32(c, d));
    let largest = f32::from_bits(largest_of(largest));
    let Some((factor, scale)) = Integers::factor(largest, largest.is_finite()) else {
        return Integers::zero(f32::NAN);
    };
    let factor = _mm256_set1_ps(factor);
    let [a, b, c, d] = eights.map(|eight| _mm256_cvtps_epi32(_mm256_mul_ps(eight, factor)));
    // Packing takes the lower lanes first, then the upper ones: fours of the block in the order 0,
    // 2, 4, 6, 1, 3, 5, 7.
    let bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    let bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    let mut values = [0; BLOCK];
    // SAFETY: there is room for a vector of bytes.
    unsafe { _mm256_storeu_si256(values.as_mut_ptr().cast(), bytes) };
    // Fours of a half, then eights, then the half, in each lane of it.
    let twos = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
    let fours = _mm256_madd_epi16(twos, _mm256_set1_epi16(1));
    let eights = _mm256_add_epi32(fours, _mm256_shuffle_epi32::<0b01_00_11_10>(fours));
    let sums = _mm256_add_epi32(eights, _mm256_shuffle_epi32::<0b10_11_00_01>(eights));
    Integers {
        values,
        scale,
        sums: [
            _mm_cvtsi128_si32(_mm256_castsi256_si128(sums)),
            _mm_cvtsi128_si32(_mm256_extracti128_si256::<1>(sums)),
        ],
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn largest_of(numbers: __m256i) -> u32 {
    let four = _mm_max_epu32(
        _mm256_castsi256_si128(numbers),
        _mm256_extracti128_si256::<1>(numbers),
    );
    let two = _mm_max_epu32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
    let one = _mm_max_epu32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two));
    _mm_cvtsi128_si32(one).cast_unsigned()
}
