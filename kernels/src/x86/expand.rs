//! From a panel's units to a byte for each weight and factors of 32 bits.

#![expect(
    clippy::inline_always,
    reason = "what is not inlined lacks the instructions of its caller"
)]

use crate::data::format::Format;
use crate::data::panel::{BLOCK, GROUP, GROUPS, ROWS};
use crate::x86::strip::Record;
use crate::x86::units::{Unit, put, put_factors, put_halves, table, units};
use crate::x86::vector::{Avx2, Avx512, Vector};

/// Meaning of the factors of a record.
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

/// Returns the number by which weights are too large as the smallest unsigned bytes. Those of up to
/// six bits without a table are so in the file.
pub(crate) const fn least_offset(format: Format) -> u8 {
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

/// Expands whole units with AVX-512. Weights become too large by `offset`; those with minima stay
/// as in the file.
///
/// # Safety
/// The CPU must have AVX-512 with its byte instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(crate) unsafe fn expand512(format: Format, offset: u8, source: &[u8], records: &mut [Record]) {
    // SAFETY: as the caller promises.
    unsafe { expand::<Avx512, true>(format, offset, source, records) };
}

/// Expands whole units with AVX2. Weights become too large by [`least_offset`].
///
/// # Safety
/// The CPU must have AVX2 and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) unsafe fn expand256(format: Format, source: &[u8], records: &mut [Record]) {
    // SAFETY: as the caller promises.
    unsafe { expand::<Avx2, false>(format, least_offset(format), source, records) };
}

/// Expands whole units. Weights of 3, 5 and 6 bits without minima stay as in the file unless they
/// are `SHIFTED` to another offset.
#[inline(always)]
unsafe fn expand<V: Vector, const SHIFTED: bool>(
    format: Format,
    offset: u8,
    source: &[u8],
    records: &mut [Record],
) {
    let shift = offset.wrapping_sub(least_offset(format));
    // SAFETY: as the caller promises.
    unsafe {
        for (unit, records) in units(format, source, records) {
            match format {
                Format::Q8_0 => eight_bits::<V>(unit, offset, &mut records[0]),
                Format::Q4_0 | Format::Iq4Nl => {
                    four_bits::<V>(unit, 0, table::<V>(format, offset), &mut records[0]);
                    put_halves::<V>(&mut records[0].scales, unit, 4 * GROUP);
                }
                Format::MxFp4 => {
                    four_bits::<V>(unit, 0, table::<V>(format, offset), &mut records[0]);
                    for row in (0..ROWS).step_by(V::LANES) {
                        let powers = V::powers(unit.at(4 * GROUP + row, V::LANES));
                        put_factors::<V>(&mut records[0].scales, row, powers);
                    }
                }
                Format::Iq4Xs => {
                    let table = table::<V>(format, offset);
                    for (block, record) in records.iter_mut().enumerate() {
                        four_bits::<V>(unit, block * GROUPS / 2 * GROUP, table, record);
                    }
                    scales_of_blocks::<V, _>(unit, records);
                }
                Format::Q5_0 => five_bits::<V, SHIFTED>(unit, shift, &mut records[0]),
                Format::Q5_1 => {
                    five_bits::<V, false>(unit, 0, &mut records[0]);
                    put_halves::<V>(&mut records[0].others, unit, 5 * GROUP + 2 * ROWS);
                }
                Format::Q2K => two_bits::<V>(unit, records),
                Format::Q3K => {
                    three_bits::<V, SHIFTED>(unit, shift, records);
                    scales_of_halves::<V>(unit, 24 * GROUP, records);
                }
                Format::Q4K => four_or_five_bits::<V, false>(unit, records),
                Format::Q5K => four_or_five_bits::<V, true>(unit, records),
                Format::Q6K => {
                    six_bits::<V, SHIFTED>(unit, shift, records);
                    scales_of_halves::<V>(unit, 48 * GROUP, records);
                }
                Format::F16 | Format::Bf16 => unreachable!("{format:?} has no blocks"),
            }
        }
    }
}

#[inline(always)]
unsafe fn eight_bits<V: Vector>(unit: Unit<'_>, offset: u8, record: &mut Record) {
    // SAFETY: the caller promises the instructions, here and in all that follow.
    unsafe {
        let offset = V::splat(offset);
        for at in (0..ROWS * BLOCK).step_by(V::BYTES) {
            put::<V>(record, at, V::add(unit.bytes::<V>(at), offset));
        }
        put_halves::<V>(&mut record.scales, unit, 8 * GROUP);
    }
}

/// Expands 4 bits of each weight of a block, which are at some place of the unit.
#[inline(always)]
unsafe fn four_bits<V: Vector>(
    unit: Unit<'_>,
    first: usize,
    table: V::Integers,
    record: &mut Record,
) {
    // SAFETY: as above.
    unsafe {
        let low = V::splat(15);
        for at in (0..ROWS * BLOCK / 2).step_by(V::BYTES) {
            let both = unit.bytes::<V>(first + at);
            let high = V::and(V::down(both, 4), low);
            put::<V>(record, at, V::look_up(table, V::and(both, low)));
            put::<V>(record, at + ROWS * BLOCK / 2, V::look_up(table, high));
        }
    }
}

/// Joins the lower and the higher bits of weights, each with a mask, and adds a number if they are
/// `SHIFTED`.
#[inline(always)]
unsafe fn put_joined<V: Vector, const SHIFTED: bool>(
    record: &mut Record,
    at: usize,
    bits: [(V::Integers, V::Integers); 2],
    shift: V::Integers,
) {
    let [(lows, low), (highs, high)] = bits;
    // SAFETY: as above.
    unsafe {
        let weights = V::or(V::and(lows, low), V::and(highs, high));
        put::<V>(
            record,
            at,
            if SHIFTED {
                V::add(weights, shift)
            } else {
                weights
            },
        );
    }
}

/// Expands a block of 5 bits, with its scales.
#[inline(always)]
unsafe fn five_bits<V: Vector, const SHIFTED: bool>(
    unit: Unit<'_>,
    shift: u8,
    record: &mut Record,
) {
    // SAFETY: as above.
    unsafe {
        let (low, fifth, shift) = (V::splat(15), V::splat(16), V::splat(shift));
        for group in 0..GROUPS / 2 {
            for at in (0..GROUP).step_by(V::BYTES) {
                let place = group * GROUP + at;
                let both = unit.bytes::<V>(place);
                let bits = unit.bytes::<V>(GROUPS / 2 * GROUP + at);
                // The bit of a group is as many places up; it belongs at 16.
                let highs = V::up(bits, 4 - group as i32);
                put_joined::<V, SHIFTED>(record, place, [(both, low), (highs, fifth)], shift);
                let (place, both) = (place + ROWS * BLOCK / 2, V::down(both, 4));
                let highs = V::down(bits, group as i32);
                put_joined::<V, SHIFTED>(record, place, [(both, low), (highs, fifth)], shift);
            }
        }
        put_halves::<V>(&mut record.scales, unit, 5 * GROUP);
    }
}

/// Expands 2 bits, times the integer scales of the halves.
#[inline(always)]
unsafe fn two_bits<V: Vector>(unit: Unit<'_>, records: &mut [Record]) {
    const FACTORS: usize = 16 * GROUP;
    // SAFETY: as above.
    unsafe {
        let low = V::splat(3);
        for (block, record) in records.iter_mut().enumerate() {
            let lows = block / 4 * ROWS * BLOCK;
            for half in 0..2 {
                for row in (0..ROWS).step_by(V::LANES) {
                    let of_half = unit.integers::<V>(FACTORS + (2 * block + half) * ROWS + row);
                    // Both bytes of a word are multiplied: no product is larger than a byte.
                    let scales = V::both_words(V::low_four(of_half));
                    for group in 4 * half..4 * half + 4 {
                        let at = group * GROUP + 4 * row;
                        let bits = V::down(unit.bytes::<V>(lows + at), 2 * (block % 4) as i32);
                        put::<V>(record, at, V::multiply_words(V::and(bits, low), scales));
                    }
                    let minima = V::floats(V::high_four(of_half));
                    let minimum = unit.halves::<V>(FACTORS + 18 * ROWS + 2 * row);
                    let out = if half == 0 {
                        &mut record.others
                    } else {
                        &mut record.second_minima
                    };
                    put_factors::<V>(out, row, V::multiply(minimum, minima));
                }
            }
            put_halves::<V>(&mut record.scales, unit, FACTORS + 16 * ROWS);
        }
    }
}

#[inline(always)]
unsafe fn three_bits<V: Vector, const SHIFTED: bool>(
    unit: Unit<'_>,
    shift: u8,
    records: &mut [Record],
) {
    // SAFETY: as above.
    unsafe {
        let (low, third, shift) = (V::splat(3), V::splat(4), V::splat(shift));
        for (side, records) in records.chunks_exact_mut(4).enumerate() {
            for at in (0..ROWS * BLOCK).step_by(V::BYTES) {
                // The third bit of a block is as many places up; those of this side come to 4 and
                // up.
                let highs = unit.bytes::<V>(at);
                let highs = if side == 0 {
                    V::up(highs, 2)
                } else {
                    V::down(highs, 2)
                };
                let lows = unit.bytes::<V>((1 + side) * ROWS * BLOCK + at);
                for (block, record) in records.iter_mut().enumerate() {
                    let lows = V::down(lows, 2 * block as i32);
                    let highs = V::down(highs, block as i32);
                    put_joined::<V, SHIFTED>(record, at, [(lows, low), (highs, third)], shift);
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn four_or_five_bits<V: Vector, const FIVE: bool>(unit: Unit<'_>, records: &mut [Record]) {
    // SAFETY: as above.
    unsafe {
        let (low, fifth) = (V::splat(15), V::splat(16));
        for (pair, records) in records.chunks_exact_mut(2).enumerate() {
            for at in (0..ROWS * BLOCK).step_by(V::BYTES) {
                let both = unit.bytes::<V>(pair * ROWS * BLOCK + at);
                let mut first = V::and(both, low);
                let mut second = V::and(V::down(both, 4), low);
                if FIVE {
                    // The bit of a block is as many places up; it belongs at 16.
                    let bits = V::down(unit.bytes::<V>(32 * GROUP + at), 2 * pair as i32);
                    first = V::or(first, V::and(V::up(bits, 4), fifth));
                    second = V::or(second, V::and(V::up(bits, 3), fifth));
                }
                put::<V>(&mut records[0], at, first);
                put::<V>(&mut records[1], at, second);
            }
        }
        let factors = if FIVE { 40 } else { 32 } * GROUP;
        for row in (0..ROWS).step_by(V::LANES) {
            let scale = unit.halves::<V>(factors + 16 * ROWS + 2 * row);
            let minimum = unit.halves::<V>(factors + 18 * ROWS + 2 * row);
            for (block, record) in records.iter_mut().enumerate() {
                let at = factors + block * ROWS + row;
                let of_block = V::floats(unit.integers::<V>(at));
                put_factors::<V>(&mut record.scales, row, V::multiply(scale, of_block));
                let of_block = V::floats(unit.integers::<V>(at + 8 * ROWS));
                put_factors::<V>(&mut record.others, row, V::multiply(minimum, of_block));
            }
        }
    }
}

#[inline(always)]
unsafe fn six_bits<V: Vector, const SHIFTED: bool>(
    unit: Unit<'_>,
    shift: u8,
    records: &mut [Record],
) {
    // SAFETY: as above.
    unsafe {
        let (low, high, shift) = (V::splat(15), V::splat(48), V::splat(shift));
        for (side, records) in records.chunks_exact_mut(4).enumerate() {
            for at in (0..ROWS * BLOCK).step_by(V::BYTES) {
                let first = unit.bytes::<V>(2 * side * ROWS * BLOCK + at);
                let second = unit.bytes::<V>((2 * side + 1) * ROWS * BLOCK + at);
                let bits = unit.bytes::<V>(32 * GROUP + side * ROWS * BLOCK + at);
                let weights = [
                    (first, V::up(bits, 4)),
                    (second, V::up(bits, 2)),
                    (V::down(first, 4), bits),
                    (V::down(second, 4), V::down(bits, 2)),
                ];
                for (record, (lows, highs)) in records.iter_mut().zip(weights) {
                    put_joined::<V, SHIFTED>(record, at, [(lows, low), (highs, high)], shift);
                }
            }
        }
    }
}

/// Puts the scales of the blocks of an `IQ4_XS` unit.
#[inline(always)]
pub(crate) unsafe fn scales_of_blocks<V: Vector, W>(unit: Unit<'_>, records: &mut [Record<W>]) {
    // SAFETY: as above.
    unsafe {
        for row in (0..ROWS).step_by(V::LANES) {
            let scale = unit.halves::<V>(32 * GROUP + 8 * ROWS + 2 * row);
            for (block, record) in records.iter_mut().enumerate() {
                let of_block = unit.signed::<V>(32 * GROUP + block * ROWS + row);
                put_factors::<V>(&mut record.scales, row, V::multiply(scale, of_block));
            }
        }
    }
}

/// Puts the scales of both halves of each block, which are at some place of the unit.
#[inline(always)]
unsafe fn scales_of_halves<V: Vector>(unit: Unit<'_>, first: usize, records: &mut [Record]) {
    // SAFETY: as above.
    unsafe {
        for row in (0..ROWS).step_by(V::LANES) {
            let scale = unit.halves::<V>(first + 16 * ROWS + 2 * row);
            for (block, record) in records.iter_mut().enumerate() {
                let at = first + 2 * block * ROWS + row;
                let of_half = unit.signed::<V>(at);
                put_factors::<V>(&mut record.scales, row, V::multiply(scale, of_half));
                let of_half = unit.signed::<V>(at + ROWS);
                put_factors::<V>(&mut record.others, row, V::multiply(scale, of_half));
            }
        }
    }
}
