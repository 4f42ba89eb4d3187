//! Keys and values of every kind as numbers of 32 bits.

use std::arch::x86_64::*;

use super::LANES;
use crate::attention::Numbers;
use crate::half;

/// Bytes of a block of 8-bit integers, of which the first two are the scale.
const BLOCK_BYTES: usize = 34;

const F32: u8 = Numbers::F32 as u8;
const F16: u8 = Numbers::F16 as u8;
const BF16: u8 = Numbers::Bf16 as u8;
const Q8_0: u8 = Numbers::Q8_0 as u8;

/// Writes the numbers of a row, and zeros up to whole vectors.
///
/// # Safety
/// `source` must have `count` numbers in whole blocks, and `out` room for whole vectors.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn widen(numbers: Numbers, source: *const u8, count: usize, out: *mut f32) {
    // SAFETY: as the caller promises.
    unsafe {
        match numbers {
            Numbers::F32 => each::<F32>(source, count, out),
            Numbers::F16 => each::<F16>(source, count, out),
            Numbers::Bf16 => each::<BF16>(source, count, out),
            Numbers::Q8_0 => each::<Q8_0>(source, count, out),
        }
    }
}

/// Has a row brought into the caches. It need not exist.
#[inline]
pub(super) fn fetch(numbers: Numbers, source: *const u8, count: usize) {
    for line in (0..numbers.bytes(count)).step_by(64) {
        // SAFETY: fetching reads nothing, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(source.wrapping_add(line).cast()) };
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn each<const NUMBERS: u8>(source: *const u8, count: usize, out: *mut f32) {
    let whole = count / LANES * LANES;
    for first in (0..whole).step_by(LANES) {
        // SAFETY: as the caller promises.
        unsafe { _mm512_storeu_ps(out.add(first), vector::<NUMBERS>(source, first, u16::MAX)) };
    }
    if whole < count {
        let present = u16::MAX >> (LANES - (count - whole));
        // SAFETY: as the caller promises.
        unsafe { _mm512_storeu_ps(out.add(whole), vector::<NUMBERS>(source, whole, present)) };
    }
}

/// Sixteen numbers from the number `first` on, a multiple of sixteen; those that are not present are zero.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn vector<const NUMBERS: u8>(source: *const u8, first: usize, present: u16) -> __m512 {
    // SAFETY: what is absent is not read; blocks of Q8_0 have two vectors each.
    unsafe {
        match NUMBERS {
            F32 => _mm512_maskz_loadu_ps(present, source.cast::<f32>().add(first)),
            F16 => {
                let half = _mm256_maskz_loadu_epi16(present, source.cast::<i16>().add(first));
                _mm512_cvtph_ps(half)
            }
            BF16 => {
                let half = _mm256_maskz_loadu_epi16(present, source.cast::<i16>().add(first));
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(half)))
            }
            _ => {
                let block = source.add(first / 32 * BLOCK_BYTES);
                let scale = half::to_f32(block.cast::<u16>().read_unaligned());
                let integers = _mm_loadu_si128(block.add(2 + first % 32).cast());
                let whole = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(integers));
                _mm512_mul_ps(whole, _mm512_set1_ps(scale))
            }
        }
    }
}
