//! From a panel's units to a byte for each weight and factors of 32 bits.

use std::arch::x86_64::*;

use crate::data::format::Format;
use crate::data::panel::{self, BLOCK, GROUP, GROUPS, ROWS};
use crate::x86::strip::Record;

/// What the factors of a record mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A scale for each row.
    Plain,
    /// A scale and a minimum for each row.
    Minima,
    /// A scale for each row, and a minimum for each half of it.
    MinimaOfHalves,
    /// A scale for each half of a row.
    Halves,
}

impl Shape {
    pub(crate) fn for_format(format: Format) -> Self {
        match format {
            Format::Q8_0
            | Format::Q4_0
            | Format::Q5_0
            | Format::MxFp4
            | Format::Iq4Nl
            | Format::Iq4Xs => Self::Plain,
            Format::Q5_1 | Format::Q4K | Format::Q5K => Self::Minima,
            Format::Q2K => Self::MinimaOfHalves,
            Format::Q3K | Format::Q6K => Self::Halves,
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
            Format::Q4_0 | Format::Iq4Nl | Format::MxFp4 => {
                four_bits(unit, 0, table(format, flip), &mut records[0]);
                for half in 0..2 {
                    let scales = if format == Format::MxFp4 {
                        unit.powers(4 * GROUP + 16 * half)
                    } else {
                        unit.halves(4 * GROUP + 32 * half)
                    };
                    put_factors(&mut records[0].scales, half, scales);
                }
            }
            Format::Iq4Xs => {
                let table = table(format, flip);
                for (block, record) in records.iter_mut().enumerate() {
                    four_bits(unit, block * GROUPS / 2 * GROUP, table, record);
                }
                for half in 0..2 {
                    let scale = unit.halves(32 * GROUP + 8 * ROWS + 32 * half);
                    for (block, record) in records.iter_mut().enumerate() {
                        let of_block = unit.signed(32 * GROUP + block * ROWS + 16 * half);
                        put_factors(&mut record.scales, half, _mm512_mul_ps(scale, of_block));
                    }
                }
            }
            Format::Q5_0 => five_bits(unit, flip.wrapping_sub(16), &mut records[0]),
            Format::Q5_1 => {
                five_bits(unit, flip, &mut records[0]);
                for half in 0..2 {
                    let minima = unit.halves(5 * GROUP + 2 * ROWS + 32 * half);
                    put_factors(&mut records[0].others, half, minima);
                }
            }
            Format::Q2K => two_bits(unit, flip, records),
            Format::Q3K => {
                three_bits(unit, flip, records);
                scales_of_halves(unit, 24 * GROUP, records);
            }
            Format::Q4K => four_or_five_bits::<false>(unit, flip, records),
            Format::Q5K => four_or_five_bits::<true>(unit, flip, records),
            Format::Q6K => {
                six_bits(unit, flip, records);
                scales_of_halves(unit, 48 * GROUP, records);
            }
            Format::F16 | Format::Bf16 => unreachable!("{format:?} has no blocks"),
        }
    }
}

/// What each four bits stand for, with the bits of `flip` turned, in every lane of a vector.
#[target_feature(enable = "avx512f")]
pub(crate) fn table(format: Format, flip: i8) -> __m512i {
    let numbers = format.table().map(|number| number ^ flip);
    // SAFETY: there are sixteen bytes.
    _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(numbers.as_ptr().cast()) })
}

/// Sixteen scales that are powers of two, from their exponents: see [`panel::power_of_two`].
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn powers_of_two(exponents: __m128i) -> __m512 {
    let exponents = _mm512_cvtepu8_epi32(exponents);
    let normal = _mm512_slli_epi32::<23>(_mm512_sub_epi32(exponents, _mm512_set1_epi32(1)));
    let subnormal = _mm512_sllv_epi32(_mm512_set1_epi32(0x0020_0000), exponents);
    let small = _mm512_cmplt_epu32_mask(exponents, _mm512_set1_epi32(2));
    _mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, small, subnormal))
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

    /// 16 binary16 values.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn halves(self, at: usize) -> __m512 {
        let bytes = &self.unit[at..at + 32];
        // SAFETY: the slice has them.
        _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) })
    }

    /// 16 powers of two.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn powers(self, at: usize) -> __m512 {
        let bytes = &self.unit[at..at + 16];
        // SAFETY: the slice has them.
        powers_of_two(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
    }

    /// 16 unsigned bytes, as integers.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn integers(self, at: usize) -> __m512i {
        let bytes = &self.unit[at..at + 16];
        // SAFETY: the slice has them.
        _mm512_cvtepu8_epi32(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
    }

    /// 16 unsigned bytes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn unsigned(self, at: usize) -> __m512 {
        _mm512_cvtepi32_ps(self.integers(at))
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
    // SAFETY: the slice has 16 values.
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

/// Expands 4 bits of each weight of a block, which are at some place of the unit.
#[target_feature(enable = "avx512f,avx512bw")]
fn four_bits(unit: Unit<'_>, first: usize, table: __m512i, record: &mut Record) {
    let low = _mm512_set1_epi8(15);
    for at in (0..ROWS * BLOCK / 2).step_by(64) {
        let both = unit.bytes(first + at);
        let high = _mm512_and_si512(_mm512_srli_epi16::<4>(both), low);
        let both = [_mm512_and_si512(both, low), high];
        for (half, bits) in both.into_iter().enumerate() {
            let place = at + half * ROWS * BLOCK / 2;
            put(record, place, _mm512_shuffle_epi8(table, bits));
        }
    }
}

/// Expands a block of 5 bits with its scales, and adds a number to each weight.
#[target_feature(enable = "avx512f,avx512bw")]
fn five_bits(unit: Unit<'_>, zero: i8, record: &mut Record) {
    let low = _mm512_set1_epi8(15);
    let fifth = _mm512_set1_epi8(16);
    let zero = _mm512_set1_epi8(zero);
    for group in 0..GROUPS / 2 {
        // The bit of a group is as many places up; it belongs at 16.
        let (up, down) = (4 - group as i32, group as i32);
        for at in (0..GROUP).step_by(64) {
            let place = group * GROUP + at;
            let both = unit.bytes(place);
            let bits = unit.bytes(GROUPS / 2 * GROUP + at);
            let halves = [
                (both, _mm512_sll_epi16(bits, _mm_cvtsi32_si128(up))),
                (
                    _mm512_srli_epi16::<4>(both),
                    _mm512_srl_epi16(bits, _mm_cvtsi32_si128(down)),
                ),
            ];
            for (half, (lows, bits)) in halves.into_iter().enumerate() {
                let weights =
                    _mm512_or_si512(_mm512_and_si512(lows, low), _mm512_and_si512(bits, fifth));
                let place = place + half * ROWS * BLOCK / 2;
                put(record, place, _mm512_add_epi8(weights, zero));
            }
        }
    }
    for half in 0..2 {
        put_factors(&mut record.scales, half, unit.halves(5 * GROUP + 32 * half));
    }
}

/// Expands 2 bits, times the integer scales of the halves.
#[target_feature(enable = "avx512f,avx512bw")]
fn two_bits(unit: Unit<'_>, flip: i8, records: &mut [Record]) {
    const FACTORS: usize = 16 * GROUP;
    let low = _mm512_set1_epi8(3);
    let flip = _mm512_set1_epi8(flip);
    for (block, record) in records.iter_mut().enumerate() {
        let lows = block / 4 * ROWS * BLOCK;
        let bits = _mm_cvtsi32_si128(2 * (block % 4) as i32);
        for half in 0..2 {
            for rows in 0..2 {
                let of_half = unit.integers(FACTORS + (2 * block + half) * ROWS + 16 * rows);
                let scales = _mm512_and_si512(of_half, _mm512_set1_epi32(15));
                // Both bytes of a word are multiplied: no product is larger than a byte.
                let scales = _mm512_or_si512(scales, _mm512_slli_epi32::<16>(scales));
                for group in 4 * half..4 * half + 4 {
                    let at = group * GROUP + 64 * rows;
                    let weights = _mm512_srl_epi16(unit.bytes(lows + at), bits);
                    let weights = _mm512_mullo_epi16(_mm512_and_si512(weights, low), scales);
                    put(record, at, _mm512_xor_si512(weights, flip));
                }
                let minima = _mm512_cvtepi32_ps(_mm512_srli_epi32::<4>(of_half));
                let minimum = unit.halves(FACTORS + 18 * ROWS + 32 * rows);
                let out = if half == 0 {
                    &mut record.others
                } else {
                    &mut record.second_minima
                };
                put_factors(out, rows, _mm512_mul_ps(minimum, minima));
            }
        }
        for rows in 0..2 {
            let scales = unit.halves(FACTORS + 16 * ROWS + 32 * rows);
            put_factors(&mut record.scales, rows, scales);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw")]
fn three_bits(unit: Unit<'_>, flip: i8, records: &mut [Record]) {
    let low = _mm512_set1_epi8(3);
    let third = _mm512_set1_epi8(4);
    let zero = _mm512_set1_epi8(flip.wrapping_sub(4));
    for (side, records) in records.chunks_exact_mut(4).enumerate() {
        for at in (0..ROWS * BLOCK).step_by(64) {
            // The third bit of a block is as many places up; those of this side come to 4 and up.
            let highs = unit.bytes(at);
            let highs = if side == 0 {
                _mm512_slli_epi16::<2>(highs)
            } else {
                _mm512_srli_epi16::<2>(highs)
            };
            let lows = unit.bytes((1 + side) * ROWS * BLOCK + at);
            for (block, record) in records.iter_mut().enumerate() {
                let lows = _mm512_srl_epi16(lows, _mm_cvtsi32_si128(2 * block as i32));
                let highs = _mm512_srl_epi16(highs, _mm_cvtsi32_si128(block as i32));
                let weights =
                    _mm512_or_si512(_mm512_and_si512(lows, low), _mm512_and_si512(highs, third));
                put(record, at, _mm512_add_epi8(weights, zero));
            }
        }
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
}

/// Puts the scales of both halves of each block, which are at some place of the unit.
#[target_feature(enable = "avx512f,avx512bw")]
fn scales_of_halves(unit: Unit<'_>, first: usize, records: &mut [Record]) {
    for half in 0..2 {
        let scale = unit.halves(first + 16 * ROWS + 32 * half);
        for (block, record) in records.iter_mut().enumerate() {
            let at = first + 2 * block * ROWS + 16 * half;
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
