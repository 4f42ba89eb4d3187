//! Quantizing activations, sixteen values at a time.

use std::arch::x86_64::*;

use crate::data::activation::{Integers, Layout};
use crate::data::panel::BLOCK;

/// Quantizes one row, to the bits that plain Rust gives.
///
/// # Safety
/// The CPU must have AVX512-VNNI.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(crate) unsafe fn row(layout: Layout, source: &[f32], row: &mut [u8]) {
    // SAFETY: the CPU has the instructions.
    layout.quantize_blocks(source, row, |block| unsafe { integers(block) });
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
#[inline]
unsafe fn integers(source: &[f32; BLOCK]) -> Integers {
    // SAFETY: a block is twice sixteen values.
    let halves = unsafe {
        [
            _mm512_loadu_ps(source.as_ptr()),
            _mm512_loadu_ps(source.as_ptr().add(BLOCK / 2)),
        ]
    };
    // As integers, the bits of absolute values have the same order as the values; infinity and NaN
    // come after all of them.
    let [first, second] = halves.map(|half| _mm512_castps_si512(_mm512_abs_ps(half)));
    let largest = f32::from_bits(largest_of(_mm512_max_epu32(first, second)));
    let Some((factor, scale)) = Integers::factor(largest, largest.is_finite()) else {
        return Integers::zero(f32::NAN);
    };
    let factor = _mm512_set1_ps(factor);
    let [first, second] =
        halves.map(|half| _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(half, factor))));
    let bytes = _mm256_set_m128i(second, first);
    let mut values = [0; BLOCK];
    // SAFETY: there is room for a vector of bytes.
    unsafe { _mm256_storeu_si256(values.as_mut_ptr().cast(), bytes) };
    // Fours of a half, then twos, then the half, in each lane of it.
    let sums = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), bytes);
    let sums = _mm256_hadd_epi32(sums, sums);
    let sums = _mm256_hadd_epi32(sums, sums);
    Integers {
        values,
        scale,
        sums: [
            _mm_cvtsi128_si32(_mm256_castsi256_si128(sums)),
            _mm_cvtsi128_si32(_mm256_extracti128_si256::<1>(sums)),
        ],
    }
}

#[target_feature(enable = "avx512f,avx512vl")]
#[inline]
fn largest_of(numbers: __m512i) -> u32 {
    let eight = _mm256_max_epu32(
        _mm512_castsi512_si256(numbers),
        _mm512_extracti64x4_epi64::<1>(numbers),
    );
    let four = _mm_max_epu32(
        _mm256_castsi256_si128(eight),
        _mm256_extracti128_si256::<1>(eight),
    );
    let two = _mm_max_epu32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
    let one = _mm_max_epu32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two));
    _mm_cvtsi128_si32(one).cast_unsigned()
}
