//! From a panel's units to a byte for each weight and factors of 32 bits.

use std::arch::x86_64::*;

use crate::data::format::Format;
use crate::data::panel::{self, BLOCK, GROUP, ROWS};
use crate::x86::strip::Record;

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

impl Shape {
    pub(crate) fn of(format: Format) -> Self {
        match format {
            Format::Q8_0 | Format::Q4_0 => Self::Plain,
            Format::Q4K | Format::Q5K => Self::Minima,
            Format::Q6K => Self::Halves,
            Format::F16 | Format::Bf16 => unreachable!("{format:?} has no blocks"),
        }
    }
}

/// Expands whole units, to signed weights or with 128 added.
///
/// # Safety
/// The CPU must have AVX-512 with its byte instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(crate) unsafe fn expand(format: Format, offset: bool, source: &[u8], records: &mut [Record]) {
    let bytes = panel::unit_bytes(format);
    let blocks = format.block() / BLOCK;
    assert_eq!(source.len() / bytes * blocks, records.len());
    let flip = if offset { -128 } else { 0 };
    for (unit, records) in source
        .chunks_exact(bytes)
        .zip(records.chunks_exact_mut(blocks))
    {
        let unit = Unit { unit };
        match format {
            Format::Q8_0 => eight_bits(unit, flip, &mut records[0]),
            Format::Q4_0 => four_bits(unit, flip, &mut records[0]),
            Format::Q4K => four_or_five_bits::<false>(unit, flip, records),
            Format::Q5K => four_or_five_bits::<true>(unit, flip, records),
            Format::Q6K => six_bits(unit, flip, records),
            Format::F16 | Format::Bf16 => unreachable!("{format:?} has no blocks"),
        }
    }
}

/// The bytes of a unit.
#[derive(Clone, Copy)]
struct Unit<'a> {
    unit: &'a [u8],
}

impl Unit<'_> {
    /// 64 bytes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn bytes(self, at: usize) -> __m512i {
        let bytes = &self.unit[at..at + 64];
        // SAFETY: the slice has them.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    /// 16 binary16 numbers.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn halves(self, at: usize) -> __m512 {
        let bytes = &self.unit[at..at + 32];
        // SAFETY: the slice has them.
        _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) })
    }

    /// 16 unsigned bytes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn unsigned(self, at: usize) -> __m512 {
        let bytes = &self.unit[at..at + 16];
        // SAFETY: the slice has them.
        _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(unsafe {
            _mm_loadu_si128(bytes.as_ptr().cast())
        }))
    }

    /// 16 signed bytes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn signed(self, at: usize) -> __m512 {
        let bytes = &self.unit[at..at + 16];
        // SAFETY: the slice has them.
        _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(unsafe {
            _mm_loadu_si128(bytes.as_ptr().cast())
        }))
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn put(record: &mut Record, at: usize, weights: __m512i) {
    let out = &mut record.weights[at..at + 64];
    // SAFETY: the slice has 64 bytes.
    unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), weights) };
}

#[inline]
#[target_feature(enable = "avx512f")]
fn put_factors(factors: &mut [f32; ROWS], half: usize, values: __m512) {
    let out = &mut factors[16 * half..16 * half + 16];
    // SAFETY: the slice has 16 numbers.
    unsafe { _mm512_storeu_ps(out.as_mut_ptr(), values) };
}

#[target_feature(enable = "avx512f,avx512bw")]
fn eight_bits(unit: Unit<'_>, flip: i8, record: &mut Record) {
    let flip = _mm512_set1_epi8(flip);
    for at in (0..ROWS * BLOCK).step_by(64) {
        put(record, at, _mm512_xor_si512(unit.bytes(at), flip));
    }
    for half in 0..2 {
        put_factors(&mut record.scales, half, unit.halves(8 * GROUP + 32 * half));
    }
}

#[target_feature(enable = "avx512f,avx512bw")]
fn four_bits(unit: Unit<'_>, flip: i8, record: &mut Record) {
    let low = _mm512_set1_epi8(15);
    let zero = _mm512_set1_epi8(flip.wrapping_sub(8));
    for at in (0..ROWS * BLOCK / 2).step_by(64) {
        let both = unit.bytes(at);
        let high = _mm512_and_si512(_mm512_srli_epi16::<4>(both), low);
        put(
            record,
            at,
            _mm512_add_epi8(_mm512_and_si512(both, low), zero),
        );
        put(record, at + ROWS * BLOCK / 2, _mm512_add_epi8(high, zero));
    }
    for half in 0..2 {
        put_factors(&mut record.scales, half, unit.halves(4 * GROUP + 32 * half));
    }
}

#[target_feature(enable = "avx512f,avx512bw")]
fn four_or_five_bits<const FIVE: bool>(unit: Unit<'_>, flip: i8, records: &mut [Record]) {
    let low = _mm512_set1_epi8(15);
    let fifth = _mm512_set1_epi8(16);
    let flip = _mm512_set1_epi8(flip);
    for (pair, records) in records.chunks_exact_mut(2).enumerate() {
        for at in (0..ROWS * BLOCK).step_by(64) {
            let both = unit.bytes(pair * ROWS * BLOCK + at);
            let mut first = _mm512_and_si512(both, low);
            let mut second = _mm512_and_si512(_mm512_srli_epi16::<4>(both), low);
            if FIVE {
                // The bit of a block is as many places up; it belongs at 16.
                let bits = unit.bytes(32 * GROUP + at);
                let bits = _mm512_srl_epi16(bits, _mm_cvtsi32_si128(2 * pair as i32));
                first =
                    _mm512_or_si512(first, _mm512_and_si512(_mm512_slli_epi16::<4>(bits), fifth));
                second = _mm512_or_si512(
                    second,
                    _mm512_and_si512(_mm512_slli_epi16::<3>(bits), fifth),
                );
            }
            put(&mut records[0], at, _mm512_xor_si512(first, flip));
            put(&mut records[1], at, _mm512_xor_si512(second, flip));
        }
    }
    let factors = if FIVE { 40 } else { 32 } * GROUP;
    for half in 0..2 {
        let scale = unit.halves(factors + 16 * ROWS + 32 * half);
        let minimum = unit.halves(factors + 18 * ROWS + 32 * half);
        for (block, record) in records.iter_mut().enumerate() {
            let at = factors + block * ROWS + 16 * half;
            put_factors(
                &mut record.scales,
                half,
                _mm512_mul_ps(scale, unit.unsigned(at)),
            );
            put_factors(
                &mut record.others,
                half,
                _mm512_mul_ps(minimum, unit.unsigned(at + 8 * ROWS)),
            );
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw")]
fn six_bits(unit: Unit<'_>, flip: i8, records: &mut [Record]) {
    let low = _mm512_set1_epi8(15);
    let high = _mm512_set1_epi8(48);
    let zero = _mm512_set1_epi8(flip.wrapping_sub(32));
    for (side, records) in records.chunks_exact_mut(4).enumerate() {
        for at in (0..ROWS * BLOCK).step_by(64) {
            let lows = [
                unit.bytes(2 * side * ROWS * BLOCK + at),
                unit.bytes((2 * side + 1) * ROWS * BLOCK + at),
            ];
            let bits = unit.bytes(32 * GROUP + side * ROWS * BLOCK + at);
            let weights = [
                (lows[0], _mm512_slli_epi16::<4>(bits)),
                (lows[1], _mm512_slli_epi16::<2>(bits)),
                (_mm512_srli_epi16::<4>(lows[0]), bits),
                (
                    _mm512_srli_epi16::<4>(lows[1]),
                    _mm512_srli_epi16::<2>(bits),
                ),
            ];
            for (record, (lows, highs)) in records.iter_mut().zip(weights) {
                let weights =
                    _mm512_or_si512(_mm512_and_si512(lows, low), _mm512_and_si512(highs, high));
                put(record, at, _mm512_add_epi8(weights, zero));
            }
        }
    }
    for half in 0..2 {
        let scale = unit.halves(48 * GROUP + 16 * ROWS + 32 * half);
        for (block, record) in records.iter_mut().enumerate() {
            let at = 48 * GROUP + 2 * block * ROWS + 16 * half;
            put_factors(
                &mut record.scales,
                half,
                _mm512_mul_ps(scale, unit.signed(at)),
            );
            put_factors(
                &mut record.others,
                half,
                _mm512_mul_ps(scale, unit.signed(at + ROWS)),
            );
        }
    }
}
