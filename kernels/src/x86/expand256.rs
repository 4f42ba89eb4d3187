//! From a panel's units to records in vectors of 32 bytes, for kernels that take unsigned weights.

use std::arch::x86_64::*;

use crate::data::format::Format;
use crate::data::panel::{self, BLOCK, GROUP, GROUPS, ROWS};
use crate::x86::strip::Record;

/// What weights are too large by if they are expanded to unsigned bytes. Those with minima are
/// unsigned by themselves.
pub(crate) fn offset(format: Format) -> u8 {
    match format {
        Format::Q3K => 4,
        Format::Q4_0 => 8,
        Format::MxFp4 => 12,
        Format::Q5_0 => 16,
        Format::Q6K => 32,
        Format::Q8_0 | Format::Iq4Nl | Format::Iq4Xs => 128,
        Format::Q5_1 | Format::Q2K | Format::Q4K | Format::Q5K | Format::F16 | Format::Bf16 => 0,
    }
}

/// Expands whole units. Weights of 8 and 4 bits without minima are made larger by `offset`; all
/// others become unsigned, as in the file.
///
/// # Safety
/// The CPU must have AVX2 and F16C.
#[target_feature(enable = "avx2,f16c")]
pub(crate) unsafe fn expand(format: Format, offset: u8, source: &[u8], records: &mut [Record]) {
    for (unit, records) in units(format, source, records) {
        match format {
            Format::Q8_0 => eight_bits(unit, offset, &mut records[0]),
            Format::Q4_0 | Format::Iq4Nl => {
                four_bits(unit, 0, table(format, offset), &mut records[0]);
                put_halves(&mut records[0].scales, unit, 4 * GROUP);
            }
            Format::MxFp4 => {
                four_bits(unit, 0, table(format, offset), &mut records[0]);
                for row in (0..ROWS).step_by(8) {
                    let powers = unit.powers(4 * GROUP + row);
                    put_factors(&mut records[0].scales, row, powers);
                }
            }
            Format::Iq4Xs => {
                let table = table(format, offset);
                for (block, record) in records.iter_mut().enumerate() {
                    four_bits(unit, block * GROUPS / 2 * GROUP, table, record);
                }
                scales_of_blocks(unit, records);
            }
            Format::Q5_0 => five_bits(unit, &mut records[0]),
            Format::Q5_1 => {
                five_bits(unit, &mut records[0]);
                put_halves(&mut records[0].others, unit, 5 * GROUP + 2 * ROWS);
            }
            Format::Q2K => two_bits(unit, records),
            Format::Q3K => {
                three_bits(unit, records);
                scales_of_halves(unit, 24 * GROUP, records);
            }
            Format::Q4K => four_or_five_bits::<false>(unit, records),
            Format::Q5K => four_or_five_bits::<true>(unit, records),
            Format::Q6K => {
                six_bits(unit, records);
                scales_of_halves(unit, 48 * GROUP, records);
            }
            Format::F16 | Format::Bf16 => unreachable!("{format:?} has no blocks"),
        }
    }
}

/// Whole units, and the records that each of them is expanded to.
pub(crate) fn units<'a, W>(
    format: Format,
    source: &'a [u8],
    records: &'a mut [Record<W>],
) -> impl Iterator<Item = (Unit<'a>, &'a mut [Record<W>])> {
    let bytes = panel::unit_bytes(format);
    let blocks = format.block() / BLOCK;
    assert_eq!(source.len() / bytes * blocks, records.len());
    let units = source.chunks_exact(bytes).map(|unit| Unit { unit });
    units.zip(records.chunks_exact_mut(blocks))
}

/// What each four bits stand for, made larger, in every lane of a vector.
#[target_feature(enable = "avx2")]
pub(crate) fn table(format: Format, offset: u8) -> __m256i {
    let table = format.table();
    let table = table.map(|number| number.wrapping_add_unsigned(offset));
    // SAFETY: there are sixteen bytes.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(table.as_ptr().cast()) })
}

/// Eight scales that are powers of two, from their exponents: see [`panel::power_of_two`].
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn powers_of_two(exponents: __m128i) -> __m256 {
    let exponents = _mm256_cvtepu8_epi32(exponents);
    let normal = _mm256_slli_epi32::<23>(_mm256_sub_epi32(exponents, _mm256_set1_epi32(1)));
    let subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x0020_0000), exponents);
    let small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), exponents);
    _mm256_castsi256_ps(_mm256_blendv_epi8(normal, subnormal, small))
}

/// The bytes of a unit.
#[derive(Clone, Copy)]
pub(crate) struct Unit<'a> {
    unit: &'a [u8],
}

impl Unit<'_> {
    /// 32 bytes.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn bytes(self, at: usize) -> __m256i {
        let bytes = &self.unit[at..at + 32];
        // SAFETY: the slice has them.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    /// 8 binary16 values.
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    fn halves(self, at: usize) -> __m256 {
        let bytes = &self.unit[at..at + 16];
        // SAFETY: the slice has them.
        _mm256_cvtph_ps(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
    }

    /// 8 bytes.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn eight(self, at: usize) -> __m128i {
        let bytes = &self.unit[at..at + 8];
        // SAFETY: the slice has them.
        unsafe { _mm_loadl_epi64(bytes.as_ptr().cast()) }
    }

    /// 8 powers of two.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn powers(self, at: usize) -> __m256 {
        powers_of_two(self.eight(at))
    }

    /// 8 unsigned bytes, as integers.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn integers(self, at: usize) -> __m256i {
        _mm256_cvtepu8_epi32(self.eight(at))
    }

    /// 8 unsigned bytes.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn unsigned(self, at: usize) -> __m256 {
        _mm256_cvtepi32_ps(self.integers(at))
    }

    /// 8 signed bytes.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn signed(self, at: usize) -> __m256 {
        _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(self.eight(at)))
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn put(record: &mut Record, at: usize, weights: __m256i) {
    let out = &mut record.weights[at..at + 32];
    // SAFETY: the slice has 32 bytes.
    unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), weights) };
}

#[inline]
#[target_feature(enable = "avx2")]
fn put_factors(factors: &mut [f32; ROWS], row: usize, values: __m256) {
    let out = &mut factors[row..row + 8];
    // SAFETY: the slice has 8 values.
    unsafe { _mm256_storeu_ps(out.as_mut_ptr(), values) };
}

/// Puts binary16 values, one for each row.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(crate) fn put_halves(factors: &mut [f32; ROWS], unit: Unit<'_>, first: usize) {
    for row in (0..ROWS).step_by(8) {
        put_factors(factors, row, unit.halves(first + 2 * row));
    }
}

#[target_feature(enable = "avx2,f16c")]
fn eight_bits(unit: Unit<'_>, offset: u8, record: &mut Record) {
    let offset = _mm256_set1_epi8(offset.cast_signed());
    for at in (0..ROWS * BLOCK).step_by(32) {
        put(record, at, _mm256_add_epi8(unit.bytes(at), offset));
    }
    put_halves(&mut record.scales, unit, 8 * GROUP);
}

/// Expands 4 bits of each weight of a block, which are at some place of the unit.
#[target_feature(enable = "avx2,f16c")]
fn four_bits(unit: Unit<'_>, first: usize, table: __m256i, record: &mut Record) {
    let low = _mm256_set1_epi8(15);
    for at in (0..ROWS * BLOCK / 2).step_by(32) {
        let both = unit.bytes(first + at);
        let high = _mm256_and_si256(_mm256_srli_epi16::<4>(both), low);
        let both = [_mm256_and_si256(both, low), high];
        for (half, bits) in both.into_iter().enumerate() {
            let place = at + half * ROWS * BLOCK / 2;
            put(record, place, _mm256_shuffle_epi8(table, bits));
        }
    }
}

/// Expands a block of 5 bits, with its scales.
#[target_feature(enable = "avx2,f16c")]
fn five_bits(unit: Unit<'_>, record: &mut Record) {
    let low = _mm256_set1_epi8(15);
    let fifth = _mm256_set1_epi8(16);
    for group in 0..GROUPS / 2 {
        // The bit of a group is as many places up; it belongs at 16.
        let (up, down) = (4 - group as i32, group as i32);
        for at in (0..GROUP).step_by(32) {
            let place = group * GROUP + at;
            let both = unit.bytes(place);
            let bits = unit.bytes(GROUPS / 2 * GROUP + at);
            let halves = [
                (both, _mm256_sll_epi16(bits, _mm_cvtsi32_si128(up))),
                (
                    _mm256_srli_epi16::<4>(both),
                    _mm256_srl_epi16(bits, _mm_cvtsi32_si128(down)),
                ),
            ];
            for (half, (lows, bits)) in halves.into_iter().enumerate() {
                let weights =
                    _mm256_or_si256(_mm256_and_si256(lows, low), _mm256_and_si256(bits, fifth));
                put(record, place + half * ROWS * BLOCK / 2, weights);
            }
        }
    }
    put_halves(&mut record.scales, unit, 5 * GROUP);
}

/// Expands 2 bits, times the integer scales of the halves.
#[target_feature(enable = "avx2,f16c")]
fn two_bits(unit: Unit<'_>, records: &mut [Record]) {
    const FACTORS: usize = 16 * GROUP;
    let low = _mm256_set1_epi8(3);
    for (block, record) in records.iter_mut().enumerate() {
        let lows = block / 4 * ROWS * BLOCK;
        let bits = _mm_cvtsi32_si128(2 * (block % 4) as i32);
        for half in 0..2 {
            for row in (0..ROWS).step_by(8) {
                let of_half = unit.integers(FACTORS + (2 * block + half) * ROWS + row);
                let scales = both_words(_mm256_and_si256(of_half, _mm256_set1_epi32(15)));
                for group in 4 * half..4 * half + 4 {
                    let at = group * GROUP + 4 * row;
                    let weights = _mm256_srl_epi16(unit.bytes(lows + at), bits);
                    let weights = _mm256_mullo_epi16(_mm256_and_si256(weights, low), scales);
                    put(record, at, weights);
                }
                let minima = _mm256_cvtepi32_ps(_mm256_srli_epi32::<4>(of_half));
                let minimum = unit.halves(FACTORS + 18 * ROWS + 2 * row);
                let out = if half == 0 {
                    &mut record.others
                } else {
                    &mut record.second_minima
                };
                put_factors(out, row, _mm256_mul_ps(minimum, minima));
            }
        }
        put_halves(&mut record.scales, unit, FACTORS + 16 * ROWS);
    }
}

/// Small integers in both words of their places: what the bytes of a word are multiplied by at
/// once, if no product is larger than a byte.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn both_words(integers: __m256i) -> __m256i {
    _mm256_or_si256(integers, _mm256_slli_epi32::<16>(integers))
}

#[target_feature(enable = "avx2,f16c")]
fn three_bits(unit: Unit<'_>, records: &mut [Record]) {
    let low = _mm256_set1_epi8(3);
    let third = _mm256_set1_epi8(4);
    for (side, records) in records.chunks_exact_mut(4).enumerate() {
        for at in (0..ROWS * BLOCK).step_by(32) {
            // The third bit of a block is as many places up; those of this side come to 4 and up.
            let highs = unit.bytes(at);
            let highs = if side == 0 {
                _mm256_slli_epi16::<2>(highs)
            } else {
                _mm256_srli_epi16::<2>(highs)
            };
            let lows = unit.bytes((1 + side) * ROWS * BLOCK + at);
            for (block, record) in records.iter_mut().enumerate() {
                let lows = _mm256_srl_epi16(lows, _mm_cvtsi32_si128(2 * block as i32));
                let highs = _mm256_srl_epi16(highs, _mm_cvtsi32_si128(block as i32));
                let weights =
                    _mm256_or_si256(_mm256_and_si256(lows, low), _mm256_and_si256(highs, third));
                put(record, at, weights);
            }
        }
    }
}

#[target_feature(enable = "avx2,f16c")]
fn four_or_five_bits<const FIVE: bool>(unit: Unit<'_>, records: &mut [Record]) {
    let low = _mm256_set1_epi8(15);
    let fifth = _mm256_set1_epi8(16);
    for (pair, records) in records.chunks_exact_mut(2).enumerate() {
        for at in (0..ROWS * BLOCK).step_by(32) {
            let both = unit.bytes(pair * ROWS * BLOCK + at);
            let mut first = _mm256_and_si256(both, low);
            let mut second = _mm256_and_si256(_mm256_srli_epi16::<4>(both), low);
            if FIVE {
                // The bit of a block is as many places up; it belongs at 16.
                let bits = unit.bytes(32 * GROUP + at);
                let bits = _mm256_srl_epi16(bits, _mm_cvtsi32_si128(2 * pair as i32));
                let bit = |moved| _mm256_and_si256(moved, fifth);
                first = _mm256_or_si256(first, bit(_mm256_slli_epi16::<4>(bits)));
                second = _mm256_or_si256(second, bit(_mm256_slli_epi16::<3>(bits)));
            }
            put(&mut records[0], at, first);
            put(&mut records[1], at, second);
        }
    }
    let factors = if FIVE { 40 } else { 32 } * GROUP;
    for row in (0..ROWS).step_by(8) {
        let scale = unit.halves(factors + 16 * ROWS + 2 * row);
        let minimum = unit.halves(factors + 18 * ROWS + 2 * row);
        for (block, record) in records.iter_mut().enumerate() {
            let at = factors + block * ROWS + row;
            let scale = _mm256_mul_ps(scale, unit.unsigned(at));
            let minimum = _mm256_mul_ps(minimum, unit.unsigned(at + 8 * ROWS));
            put_factors(&mut record.scales, row, scale);
            put_factors(&mut record.others, row, minimum);
        }
    }
}

#[target_feature(enable = "avx2,f16c")]
fn six_bits(unit: Unit<'_>, records: &mut [Record]) {
    let low = _mm256_set1_epi8(15);
    let high = _mm256_set1_epi8(48);
    for (side, records) in records.chunks_exact_mut(4).enumerate() {
        for at in (0..ROWS * BLOCK).step_by(32) {
            let lows = [
                unit.bytes(2 * side * ROWS * BLOCK + at),
                unit.bytes((2 * side + 1) * ROWS * BLOCK + at),
            ];
            let bits = unit.bytes(32 * GROUP + side * ROWS * BLOCK + at);
            let weights = [
                (lows[0], _mm256_slli_epi16::<4>(bits)),
                (lows[1], _mm256_slli_epi16::<2>(bits)),
                (_mm256_srli_epi16::<4>(lows[0]), bits),
                (
                    _mm256_srli_epi16::<4>(lows[1]),
                    _mm256_srli_epi16::<2>(bits),
                ),
            ];
            for (record, (lows, highs)) in records.iter_mut().zip(weights) {
                let weights =
                    _mm256_or_si256(_mm256_and_si256(lows, low), _mm256_and_si256(highs, high));
                put(record, at, weights);
            }
        }
    }
}

/// Puts the scales of the blocks of an `IQ4_XS` unit.
#[target_feature(enable = "avx2,f16c")]
pub(crate) fn scales_of_blocks<W>(unit: Unit<'_>, records: &mut [Record<W>]) {
    for row in (0..ROWS).step_by(8) {
        let scale = unit.halves(32 * GROUP + 8 * ROWS + 2 * row);
        for (block, record) in records.iter_mut().enumerate() {
            let of_block = unit.signed(32 * GROUP + block * ROWS + row);
            put_factors(&mut record.scales, row, _mm256_mul_ps(scale, of_block));
        }
    }
}

/// Puts the scales of both halves of each block, which are at some place of the unit.
#[target_feature(enable = "avx2,f16c")]
fn scales_of_halves(unit: Unit<'_>, first: usize, records: &mut [Record]) {
    for row in (0..ROWS).step_by(8) {
        let scale = unit.halves(first + 16 * ROWS + 2 * row);
        for (block, record) in records.iter_mut().enumerate() {
            let at = first + 2 * block * ROWS + row;
            let first = _mm256_mul_ps(scale, unit.signed(at));
            let second = _mm256_mul_ps(scale, unit.signed(at + ROWS));
            put_factors(&mut record.scales, row, first);
            put_factors(&mut record.others, row, second);
        }
    }
}
