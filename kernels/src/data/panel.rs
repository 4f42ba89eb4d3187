//! Weights as the kernels read them.
//!
//! A panel holds [`ROWS`] rows, a unit for each block of the format. In a unit come first the bytes
//! of weights, in groups of four neighbors of one row, which one lane of an instruction multiplies:
//! the first group of every row, then the second of every row, and so on. Weights of 2 to 6 bits
//! share bytes as in the file. Behind them is what weights are scaled by, again the same of
//! every row together.

use crate::data::format::Format;
use crate::data::{float, half};

/// Number of rows of a panel.
pub(crate) const ROWS: usize = 32;
/// Columns that have a sum of their own, and of a block of activations.
pub(crate) const BLOCK: usize = 32;
/// Bytes of one group of every row.
pub(crate) const GROUP: usize = 4 * ROWS;
/// Number of groups of a block.
pub(crate) const GROUPS: usize = BLOCK / 4;

/// The largest exponent of a scale that is a power of two: with a larger one, the bits that sums
/// begin with would be too large for a value of 32 bits. It is packed in place of those.
const MAX_EXPONENT: u8 = 231;

/// The scale of an exponent: half of what it means elsewhere, as the values of `MXFP4`'s table are
/// twice what they mean.
pub(crate) fn power_of_two(exponent: u8) -> f32 {
    f32::from_bits(match exponent {
        // Subnormal.
        0 | 1 => 0x0020_0000 << exponent,
        _ => u32::from(exponent - 1) << 23,
    })
}

/// Returns the number of bytes of a unit of packed weights.
pub(crate) fn unit_bytes(format: Format) -> usize {
    ROWS * format.packed_bytes()
}

/// Packs rows; those that the last panel lacks are zero.
pub(crate) fn pack(format: Format, cols: usize, source: &[u8], panels: &mut [u8]) {
    if format.is_float() {
        return float::pack(cols, source, panels);
    }
    let row_bytes = format.row_bytes(cols);
    let unit = unit_bytes(format);
    let panel_bytes = cols / format.block() * unit;
    for (panel, rows) in panels
        .chunks_exact_mut(panel_bytes)
        .zip(source.chunks(ROWS * row_bytes))
    {
        if rows.len() < ROWS * row_bytes {
            panel.fill(0);
        }
        for (lane, row) in rows.chunks_exact(row_bytes).enumerate() {
            for (block, unit) in row
                .chunks_exact(format.block_bytes())
                .zip(panel.chunks_exact_mut(unit))
            {
                let mut unit = Lane { unit, lane };
                match format {
                    Format::Q8_0 | Format::Q4_0 | Format::Iq4Nl => {
                        let (scale, weights) = block.split_at(2);
                        unit.put(4, weights).put_halves(scale);
                    }
                    Format::MxFp4 => {
                        let exponent = block[0].min(MAX_EXPONENT);
                        unit.put(4, &block[1..]).put(1, &[exponent]);
                    }
                    Format::Q5_0 => {
                        unit.put(4, &block[6..]).put(4, &fifth_bits(&block[2..6]));
                        unit.put_halves(&block[..2]);
                    }
                    Format::Q5_1 => {
                        unit.put(4, &block[8..]).put(4, &fifth_bits(&block[4..8]));
                        // What is added to weights, as what they are too large by.
                        unit.put_halves(&[block[0], block[1], block[2], block[3] ^ 0x80]);
                    }
                    Format::Iq4Xs => {
                        let scales = scales_of_32(&block[2..8]);
                        unit.put(4, &block[8..]).put(1, &scales);
                        unit.put_halves(&block[..2]);
                    }
                    Format::Q2K => {
                        unit.put(4, &block[16..80])
                            .put(1, &block[..16])
                            .put_halves(&block[80..]);
                    }
                    Format::Q3K => {
                        let scales = scales_of_16(&block[96..108]);
                        unit.put(4, &block[..96]).put(1, &scales);
                        unit.put_halves(&block[108..]);
                    }
                    Format::Q4K => {
                        let (scales, minima) = six_bits(&block[4..16]);
                        unit.put(4, &block[16..])
                            .put(1, &scales)
                            .put(1, &minima)
                            .put_halves(&block[..4]);
                    }
                    Format::Q5K => {
                        let (scales, minima) = six_bits(&block[4..16]);
                        unit.put(4, &block[48..]).put(4, &block[16..48]);
                        unit.put(1, &scales).put(1, &minima).put_halves(&block[..4]);
                    }
                    Format::Q6K => {
                        unit.put(4, &block[..192])
                            .put(1, &block[192..208])
                            .put_halves(&block[208..]);
                    }
                    Format::F16 | Format::Bf16 => unreachable!("{format:?} has no blocks"),
                }
            }
        }
    }
}

/// The rest of a unit that is being filled, with the row that fills it.
struct Lane<'a> {
    unit: &'a mut [u8],
    lane: usize,
}

impl Lane<'_> {
    /// Puts the row's next bytes, `width` at a time, among those of the other rows.
    fn put(&mut self, width: usize, bytes: &[u8]) -> &mut Self {
        let unit = std::mem::take(&mut self.unit);
        let (filled, rest) = unit.split_at_mut(bytes.len() * ROWS);
        for (bytes, all) in bytes
            .chunks_exact(width)
            .zip(filled.chunks_exact_mut(width * ROWS))
        {
            all[width * self.lane..][..width].copy_from_slice(bytes);
        }
        self.unit = rest;
        self
    }

    /// Puts binary16 values. An infinite one becomes NaN: kernels subtract multiples of a
    /// scale from each other.
    fn put_halves(&mut self, bytes: &[u8]) {
        for bytes in bytes.chunks_exact(2) {
            let infinite = half::read(bytes).is_infinite();
            self.put(2, if infinite { &half::NAN } else { bytes });
        }
    }
}

/// The fifth bits of 32 columns, so that those of a group's columns are at the same place of four
/// bytes.
fn fifth_bits(packed: &[u8]) -> [u8; 4] {
    let bit = |column: usize| packed[column / 8] >> (column % 8) & 1;
    std::array::from_fn(|byte| {
        (0..GROUPS).fold(0, |bits, group| bits | bit(4 * group + byte) << group)
    })
}

/// The eight scales of a block of `IQ4_XS`, six bits each: two in two bytes, then four.
fn scales_of_32(packed: &[u8]) -> [u8; 8] {
    std::array::from_fn(|at| {
        let low = packed[2 + at / 2] >> (4 * (at % 2)) & 15;
        let high = packed[at / 4] >> (2 * (at % 4)) & 3;
        (low | high << 4).wrapping_sub(32)
    })
}

/// The sixteen scales of a block of `Q3_K`, six bits each: four in eight bytes, then two.
fn scales_of_16(packed: &[u8]) -> [u8; 16] {
    std::array::from_fn(|at| {
        let low = packed[at % 8] >> (4 * (at / 8)) & 15;
        let high = packed[8 + at % 4] >> (2 * (at / 4)) & 3;
        (low | high << 4).wrapping_sub(32)
    })
}

/// The eight scales and the eight minima of a block of `Q4_K` or `Q5_K`, six bits each in twelve
/// bytes.
fn six_bits(packed: &[u8]) -> ([u8; 8], [u8; 8]) {
    let (low, rest) = packed.split_at(4);
    let (middle, high) = rest.split_at(4);
    let scales = std::array::from_fn(|at| match at {
        0..4 => low[at] & 63,
        _ => (high[at - 4] & 15) | (low[at - 4] >> 6) << 4,
    });
    let minima = std::array::from_fn(|at| match at {
        0..4 => middle[at] & 63,
        _ => (high[at - 4] >> 4) | (middle[at - 4] >> 6) << 4,
    });
    (scales, minima)
}

/// One row's weights of a block of columns.
pub(crate) struct UnpackedRow {
    pub(crate) weights: [i32; BLOCK],
    /// The scales of the first and of the second half, where they have their own.
    pub(crate) scale: f32,
    pub(crate) second: Option<f32>,
    /// Amount to subtract from every weight, or from those of the first half if the second half has
    /// its own.
    pub(crate) minimum: Option<f32>,
    pub(crate) second_minimum: Option<f32>,
}

/// The weights of a row in block `block` of a unit.
pub(crate) fn unpack(format: Format, unit: &[u8], block: usize, lane: usize) -> UnpackedRow {
    let byte = |group: usize, column: usize| unit[group * GROUP + lane * 4 + column % 4];
    let at = |start: usize, width: usize, number: usize| {
        &unit[start + number * width * ROWS + lane * width..][..width]
    };
    let weights = |weight: &dyn Fn(usize) -> i32| std::array::from_fn(weight);
    let nibble = |byte: u8, high: bool| i32::from(if high { byte >> 4 } else { byte & 15 });
    let plain = |weights, scale| UnpackedRow {
        weights,
        scale,
        second: None,
        minimum: None,
        second_minimum: None,
    };
    // The columns of 4 bits share bytes by halves of the block.
    let bits = |block: usize, column: usize| {
        nibble(
            byte(block * GROUPS / 2 + column / 4 % 4, column),
            column >= BLOCK / 2,
        )
    };
    let table = format.table();
    let four_bits =
        |block: usize| weights(&|column| i32::from(table[bits(block, column) as usize]));
    let five_bits =
        |column: usize| bits(0, column) | i32::from(byte(4, column) >> (column / 4) & 1) << 4;
    match format {
        Format::Q8_0 => plain(
            weights(&|column| i32::from(byte(column / 4, column).cast_signed())),
            half::read(at(8 * GROUP, 2, 0)),
        ),
        Format::Q4_0 | Format::Iq4Nl => plain(four_bits(0), half::read(at(4 * GROUP, 2, 0))),
        Format::MxFp4 => plain(four_bits(0), power_of_two(at(4 * GROUP, 1, 0)[0])),
        Format::Iq4Xs => plain(
            four_bits(block),
            half::read(at(32 * GROUP + 8 * ROWS, 2, 0))
                * f32::from(at(32 * GROUP, 1, block)[0].cast_signed()),
        ),
        Format::Q5_0 => plain(
            weights(&|column| five_bits(column) - 16),
            half::read(at(5 * GROUP, 2, 0)),
        ),
        Format::Q5_1 => UnpackedRow {
            weights: weights(&five_bits),
            scale: half::read(at(5 * GROUP, 2, 0)),
            second: None,
            minimum: Some(half::read(at(5 * GROUP, 2, 1))),
            second_minimum: None,
        },
        Format::Q2K => {
            let of_half = |half: usize| at(16 * GROUP, 1, 2 * block + half)[0];
            let factor = |number| half::read(at(16 * GROUP + 16 * ROWS, 2, number));
            let minimum = |half: usize| factor(1) * f32::from(of_half(half) >> 4);
            UnpackedRow {
                // The integer scale of a half is multiplied in.
                weights: weights(&|column| {
                    let byte = byte(block / 4 * GROUPS + column / 4, column);
                    let scale = of_half(2 * column / BLOCK) & 15;
                    i32::from((byte >> (2 * (block % 4)) & 3) * scale)
                }),
                scale: factor(0),
                second: None,
                minimum: Some(minimum(0)),
                second_minimum: Some(minimum(1)),
            }
        }
        Format::Q3K => {
            let scale = |half: usize| {
                half::read(at(24 * GROUP + 16 * ROWS, 2, 0))
                    * f32::from(at(24 * GROUP, 1, 2 * block + half)[0].cast_signed())
            };
            UnpackedRow {
                weights: weights(&|column| {
                    let high = byte(column / 4, column) >> block & 1;
                    let low = byte((1 + block / 4) * GROUPS + column / 4, column);
                    i32::from(low >> (2 * (block % 4)) & 3 | high << 2) - 4
                }),
                scale: scale(0),
                second: Some(scale(1)),
                minimum: None,
                second_minimum: None,
            }
        }
        Format::Q4K | Format::Q5K => {
            let high = |column: usize| match format {
                Format::Q5K => i32::from(byte(32 + column / 4, column) >> block & 1) << 4,
                _ => 0,
            };
            let factors = unit_bytes(format) - 20 * ROWS;
            let factor = |number| half::read(at(factors + 16 * ROWS, 2, number));
            UnpackedRow {
                weights: weights(&|column| {
                    nibble(
                        byte(block / 2 * GROUPS + column / 4, column),
                        block % 2 == 1,
                    ) | high(column)
                }),
                scale: factor(0) * f32::from(at(factors, 1, block)[0]),
                second: None,
                minimum: Some(factor(1) * f32::from(at(factors, 1, 8 + block)[0])),
                second_minimum: None,
            }
        }
        Format::Q6K => {
            let (side, within) = (block / 4, block % 4);
            let scale = |half: usize| {
                half::read(at(48 * GROUP + 16 * ROWS, 2, 0))
                    * f32::from(at(48 * GROUP, 1, 2 * block + half)[0].cast_signed())
            };
            UnpackedRow {
                weights: weights(&|column| {
                    let low = byte((side * 2 + within % 2) * GROUPS + column / 4, column);
                    let high = byte(32 + side * GROUPS + column / 4, column) >> (2 * within) & 3;
                    (nibble(low, within >= 2) | i32::from(high) << 4) - 32
                }),
                scale: scale(0),
                second: Some(scale(1)),
                minimum: None,
                second_minimum: None,
            }
        }
        Format::F16 | Format::Bf16 => unreachable!("{format:?} has no blocks"),
    }
}
