//! Powers of two.

use std::arch::x86_64::*;

use crate::data::exp2::{COEFFICIENTS, LEAST};
/// From here on, powers are infinite.
const MOST: f32 = 128.0;

/// 2 to the power of each element; exactly 1 for 0, and 0 where it would be subnormal. NaN stays
/// NaN.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn exp2(x: __m256) -> __m256 {
    let present = _mm256_cmp_ps::<_CMP_NLT_UQ>(x, _mm256_set1_ps(LEAST));
    let whole = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x);
    let rest = _mm256_sub_ps(x, whole);
    let mut power = _mm256_set1_ps(COEFFICIENTS[0]);
    for coefficient in &COEFFICIENTS[1..] {
        power = _mm256_fmadd_ps(power, rest, _mm256_set1_ps(*coefficient));
    }
    power = _mm256_fmadd_ps(power, rest, _mm256_set1_ps(1.0));
    // The exponent of 128 is that of infinity.
    let whole = _mm256_min_ps(whole, _mm256_set1_ps(MOST));
    let exponents = _mm256_add_epi32(_mm256_cvtps_epi32(whole), _mm256_set1_epi32(127));
    let factor = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponents));
    _mm256_and_ps(present, _mm256_mul_ps(power, factor))
}

/// 2 to the power of a number, as [`exp2`] has it.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn exp2_of_one(x: f32) -> f32 {
    _mm256_cvtss_f32(exp2(_mm256_set1_ps(x)))
}

/// The hyperbolic tangent of half the natural logarithm of 2 to the power of each element: 1 - 2 /
/// (2^x + 1).
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn bend(x: __m256) -> __m256 {
    let one = _mm256_set1_ps(1.0);
    let divisor = _mm256_add_ps(exp2(x), one);
    _mm256_sub_ps(one, _mm256_div_ps(_mm256_set1_ps(2.0), divisor))
}
