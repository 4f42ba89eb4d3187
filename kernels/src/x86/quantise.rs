//! Quantising activations, sixteen numbers at a time.

use std::arch::x86_64::*;

use crate::activation::{Integers, Layout};
use crate::panel::BLOCK;

/// Quantises one row, to the bits that plain Rust gives.
///
/// # Safety
/// The CPU must have AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(crate) unsafe fn row(layout: Layout, source: &[f32], row: &mut [u8]) {
    // SAFETY: the CPU has the instructions.
    layout.quantise_blocks(source, row, |block| unsafe { integers(block) });
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
unsafe fn integers(source: &[f32; BLOCK]) -> Integers {
    // SAFETY: a block is twice sixteen numbers.
    let halves = unsafe {
        [
            _mm512_loadu_ps(source.as_ptr()),
            _mm512_loadu_ps(source.as_ptr().add(BLOCK / 2)),
        ]
    };
    let [first, second] = halves.map(|half| _mm512_abs_ps(half));
    let infinity = _mm512_set1_ps(f32::INFINITY);
    // Neither infinity nor what compares with nothing is below it.
    let finite = _mm512_cmplt_ps_mask(first, infinity) & _mm512_cmplt_ps_mask(second, infinity);
    let largest = _mm512_reduce_max_ps(_mm512_max_ps(first, second));
    let Some((factor, scale)) = Integers::factor(largest, finite == u16::MAX) else {
        return Integers::zero(f32::NAN);
    };
    let factor = _mm512_set1_ps(factor);
    let [first, second] = halves.map(|half| _mm512_cvtps_epi32(_mm512_mul_ps(half, factor)));
    let mut values = [0; BLOCK];
    // SAFETY: there is room for twice sixteen bytes.
    unsafe {
        let room = values.as_mut_ptr();
        _mm_storeu_si128(room.cast(), _mm512_cvtepi32_epi8(first));
        _mm_storeu_si128(room.add(BLOCK / 2).cast(), _mm512_cvtepi32_epi8(second));
    }
    Integers {
        values,
        scale,
        sums: [first, second].map(|half| _mm512_reduce_add_epi32(half)),
    }
}
