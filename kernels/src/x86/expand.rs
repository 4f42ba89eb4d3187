//! From a panel's records to a byte for each weight and factors of 32 bits.

use std::arch::x86_64::*;

use crate::Format;
use crate::panel::{self, ROWS};
use crate::x86::blocking::Record;

/// What the factors of a record mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A scale for each row.
    Plain,
    /// A scale and a minimum for each row.
    Minima,
    /// A scale for each half of a row.
    Halves,
}

/// Expands whole records, to signed weights or with 128 added.
///
/// # Safety
/// The CPU must have AVX-512 with its byte instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(crate) unsafe fn expand(
    format: Format,
    offset: bool,
    source: &[u8],
    records: &mut [Record],
) -> Shape {
    let bytes = panel::record_bytes(format).unwrap_or_default();
    assert_eq!(source.len(), records.len() * bytes);
    let ahead = (records.len() + 8) * bytes / 2;
    let flip = if offset { -128 } else { 0 };
    for (source, record) in source.chunks_exact(bytes).zip(records) {
        for line in (0..bytes).step_by(64) {
            _mm_prefetch::<_MM_HINT_T0>(source.as_ptr().wrapping_add(ahead + line).cast());
        }
        // SAFETY: a record of the panel has these bytes, and so has an expanded one.
        unsafe {
            match format {
                Format::Q8_0 => bytes_of_8(source.as_ptr(), flip, record),
                _ => bytes_of_4(source.as_ptr(), flip, record),
            }
            scales(source.as_ptr().add(bytes - 2 * ROWS), record);
        }
    }
    Shape::Plain
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn bytes_of_8(source: *const u8, flip: i8, record: &mut Record) {
    let flip = _mm512_set1_epi8(flip);
    for (at, out) in record.weights.chunks_exact_mut(64).enumerate() {
        // SAFETY: the caller's record has as many weights.
        unsafe {
            let weights = _mm512_loadu_si512(source.add(64 * at).cast());
            _mm512_store_si512(out.as_mut_ptr().cast(), _mm512_xor_si512(weights, flip));
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn bytes_of_4(source: *const u8, flip: i8, record: &mut Record) {
    let low = _mm512_set1_epi8(15);
    let zero = _mm512_set1_epi8(flip.wrapping_sub(8));
    let (first, second) = record.weights.split_at_mut(ROWS * 16);
    for (at, (first, second)) in first
        .chunks_exact_mut(64)
        .zip(second.chunks_exact_mut(64))
        .enumerate()
    {
        // SAFETY: the caller's record has half as many bytes as weights.
        unsafe {
            let both = _mm512_loadu_si512(source.add(64 * at).cast());
            let high = _mm512_and_si512(_mm512_srli_epi16::<4>(both), low);
            _mm512_store_si512(
                first.as_mut_ptr().cast(),
                _mm512_add_epi8(_mm512_and_si512(both, low), zero),
            );
            _mm512_store_si512(second.as_mut_ptr().cast(), _mm512_add_epi8(high, zero));
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn scales(source: *const u8, record: &mut Record) {
    for half in 0..2 {
        // SAFETY: the caller's record has 32 scales of two bytes here.
        unsafe {
            let scales = _mm512_cvtph_ps(_mm256_loadu_si256(source.add(32 * half).cast()));
            _mm512_storeu_ps(record.scales.as_mut_ptr().add(16 * half), scales);
        }
    }
}
