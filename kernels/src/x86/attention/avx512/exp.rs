//! Powers of two.

use std::arch::x86_64::*;

use crate::data::exp2::{COEFFICIENTS, LEAST};

/// 2 to the power of each element; exactly 1 for 0, and 0 where it would be subnormal. NaN stays
/// NaN.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn exp2(x: __m512) -> __m512 {
    let present = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x, _mm512_set1_ps(LEAST));
    let whole = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x);
    let rest = _mm512_sub_ps(x, whole);
    let mut power = _mm512_set1_ps(COEFFICIENTS[0]);
    for coefficient in &COEFFICIENTS[1..] {
        power = _mm512_fmadd_ps(power, rest, _mm512_set1_ps(*coefficient));
    }
    power = _mm512_fmadd_ps(power, rest, _mm512_set1_ps(1.0));
    _mm512_maskz_scalef_ps(present, power, whole)
}

/// The hyperbolic tangent of half the natural logarithm of 2 to the power of each element: 1 - 2 /
/// (2^x + 1).
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn bend(x: __m512) -> __m512 {
    let one = _mm512_set1_ps(1.0);
    let divisor = _mm512_add_ps(exp2(x), one);
    _mm512_sub_ps(one, _mm512_div_ps(_mm512_set1_ps(2.0), divisor))
}
