//! Random weights in ggml's number types.

use std::io::{self, Write};

use super::superblocks::{self, SUPERBLOCK};
use crate::load::random::Random;

/// Weights that share a scale in the simpler quantized types.
const BLOCK: usize = 32;

/// A number type of tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// 32-bit float.
    F32,
    /// 16-bit float.
    F16,
    /// Blocks of 8-bit numbers.
    Q8_0,
    /// Blocks of 4-bit numbers.
    Q4_0,
    /// Blocks of 5-bit numbers.
    Q5_0,
    /// Blocks of 256 numbers of 4 bits.
    Q4K,
    /// Blocks of 256 numbers of 6 bits.
    Q6K,
    /// Blocks of 4-bit floats that share a power of two.
    MxFp4,
}

impl Type {
    /// ggml's number of the type.
    pub fn ggml(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q4_0 => 2,
            Self::Q5_0 => 6,
            Self::Q8_0 => 8,
            Self::Q4K => 12,
            Self::Q6K => 14,
            Self::MxFp4 => 39,
        }
    }

    /// Numbers that are stored together.
    pub fn block(self) -> usize {
        match self {
            Self::F32 | Self::F16 => 1,
            Self::Q8_0 | Self::Q4_0 | Self::Q5_0 | Self::MxFp4 => BLOCK,
            Self::Q4K | Self::Q6K => SUPERBLOCK,
        }
    }

    /// Bytes of so many numbers, which are whole blocks.
    pub fn bytes(self, numbers: u64) -> u64 {
        let of_block = match self {
            Self::F32 => 4,
            Self::F16 => 2,
            Self::Q8_0 => 34,
            Self::Q4_0 => 18,
            Self::Q5_0 => 22,
            Self::Q4K => 144,
            Self::Q6K => 210,
            Self::MxFp4 => 17,
        };
        numbers / self.block() as u64 * of_block
    }
}

/// Writes `count` random numbers of deviation `deviation`; a whole number of blocks.
///
/// # Errors
///
/// If writing fails.
pub(super) fn write_random(
    out: &mut (impl Write + ?Sized),
    random: &mut Random,
    kind: Type,
    count: u64,
    deviation: f32,
) -> io::Result<()> {
    // Whole blocks of every type.
    let mut block = [0.0; SUPERBLOCK];
    let mut bytes = Vec::with_capacity(4 * SUPERBLOCK);
    let mut left = count as usize;
    while left > 0 {
        let block = &mut block[..left.min(SUPERBLOCK)];
        block.fill_with(|| deviation * random.weight());
        bytes.clear();
        block
            .chunks(kind.block())
            .for_each(|block| encode(block, kind, &mut bytes));
        out.write_all(&bytes)?;
        left -= block.len();
    }
    Ok(())
}

/// Appends a block of numbers in a type.
fn encode(block: &[f32], kind: Type, out: &mut Vec<u8>) {
    match kind {
        Type::F32 => block
            .iter()
            .for_each(|number| out.extend(number.to_le_bytes())),
        Type::F16 => block
            .iter()
            .for_each(|number| out.extend(half(*number).to_le_bytes())),
        Type::Q8_0 => {
            let highest = block
                .iter()
                .fold(0.0_f32, |highest, number| highest.max(number.abs()));
            let scale = highest / 127.0;
            out.extend(half(scale).to_le_bytes());
            let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
            out.extend(
                block
                    .iter()
                    .map(|number| (number * inverse).round() as i8 as u8),
            );
        }
        Type::Q4_0 => {
            let (numbers, scale) = around_zero(block, 8.0);
            out.extend(half(scale).to_le_bytes());
            out.extend(in_halves(&numbers));
        }
        Type::Q5_0 => {
            let (numbers, scale) = around_zero(block, 16.0);
            out.extend(half(scale).to_le_bytes());
            let fifth = |(at, number): (usize, &u8)| u32::from(number >> 4) << at;
            let fifths: u32 = numbers.iter().enumerate().map(fifth).sum();
            out.extend(fifths.to_le_bytes());
            out.extend(in_halves(&numbers));
        }
        Type::MxFp4 => {
            let (numbers, exponent) = small_floats(block);
            out.push(exponent);
            out.extend(in_halves(&numbers));
        }
        Type::Q4K => superblocks::four_bits(block, out),
        Type::Q6K => superblocks::six_bits(block, out),
    }
}

/// The lower four bits of a block's numbers, those of its second half above those of its first.
fn in_halves(numbers: &[u8; BLOCK]) -> [u8; BLOCK / 2] {
    std::array::from_fn(|at| numbers[at] & 15 | (numbers[at + BLOCK / 2] & 15) << 4)
}

/// A block as whole numbers from 0 to `2 * zero - 1` in which `zero` stands for zero, and their
/// scale. The number farthest from zero becomes 0.
fn around_zero(block: &[f32], zero: f32) -> ([u8; BLOCK], f32) {
    let farthest = block.iter().fold(0.0_f32, |far, number| {
        if number.abs() > far.abs() {
            *number
        } else {
            far
        }
    });
    let scale = farthest / -zero;
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    let highest = 2 * zero as u8 - 1;
    let mut numbers = [0; BLOCK];
    for (whole, number) in numbers.iter_mut().zip(block) {
        *whole = ((number * inverse + zero + 0.5) as u8).min(highest);
    }
    (numbers, scale)
}

/// The magnitudes of 4-bit floats, whose sign is a fourth bit.
const MAGNITUDES: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// A block as 4-bit floats and the exponent of their common scale, 127 more than it means: the
/// largest number gets a magnitude from 4 on.
fn small_floats(block: &[f32]) -> ([u8; BLOCK], u8) {
    let largest = block
        .iter()
        .fold(0.0_f32, |largest, number| largest.max(number.abs()));
    // As in a 32-bit float, whose exponent it is.
    let exponent = (largest.to_bits() >> 23).saturating_sub(2);
    let scale = f32::from_bits(exponent << 23);
    let mut numbers = [0; BLOCK];
    for (bits, number) in numbers.iter_mut().zip(block) {
        let wanted = if scale > 0.0 {
            number.abs() / scale
        } else {
            0.0
        };
        let reached = |at: &usize| f32::midpoint(MAGNITUDES[at - 1], MAGNITUDES[*at]) <= wanted;
        let magnitude = (1..MAGNITUDES.len()).take_while(reached).count();
        *bits = magnitude as u8 | u8::from(number.is_sign_negative()) << 3;
    }
    (numbers, exponent as u8)
}

/// The bits of the 16-bit float next to `number`; none here is too large for one.
pub(super) fn half(number: f32) -> u16 {
    let bits = number.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let exponent = ((bits >> 23) & 0xff) as i32 - 127 + 15;
    if exponent <= 0 {
        // Below the normal range, in units of 2^-24. A number that is rounded up to that range has
        // its bits too.
        return sign | (number.abs() * 16_777_216.0).round() as u16;
    }
    let rounded = ((exponent as u32) << 23 | (bits & 0x7f_ffff)) + 0x1000;
    sign | (rounded >> 13).min(0x7bff) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bit_floats_have_the_usual_bits() {
        for (number, bits) in [
            (0.0, 0),
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (0.1, 0x2e66),
            (65_504.0, 0x7bff),
            (-3e-5, 0x81f7),
            (1e-8, 0),
        ] {
            assert_eq!(half(number), bits, "{number}");
        }
    }

    #[test]
    fn quantized_blocks_have_their_sizes_and_keep_the_extremes() {
        let mut block = [0.0_f32; BLOCK];
        (block[0], block[20]) = (-2.0, 1.0);
        let mut out = Vec::new();
        encode(&block, Type::Q8_0, &mut out);
        assert_eq!(out.len() as u64, Type::Q8_0.bytes(32));
        assert_eq!((out[2] as i8, out[22] as i8), (-127, 64));
        out.clear();
        encode(&block, Type::Q4_0, &mut out);
        assert_eq!(out.len() as u64, Type::Q4_0.bytes(32));
        // -2 is at the end of the range, 0 in its middle, 1 half-way to the other end.
        assert_eq!((out[2] & 15, out[2] >> 4, out[6] >> 4), (0, 8, 12));
    }

    #[test]
    fn five_bits_are_in_two_places() {
        let mut block = [0.0_f32; BLOCK];
        (block[0], block[20]) = (-2.0, 1.0);
        let mut out = Vec::new();
        encode(&block, Type::Q5_0, &mut out);
        let fifth = |at: usize| out[2 + at / 8] >> (at % 8) & 1;
        let number = |at: usize| {
            let byte = out[6 + at % 16];
            (if at < 16 { byte & 15 } else { byte >> 4 }) | fifth(at) << 4
        };
        assert_eq!((number(0), number(1), number(20)), (0, 16, 24));
    }

    #[test]
    fn small_floats_share_a_power_of_two() {
        let mut block = [0.0_f32; BLOCK];
        (block[0], block[1], block[16]) = (-12.0, 5.9, 1.1);
        let mut out = Vec::new();
        encode(&block, Type::MxFp4, &mut out);
        assert_eq!(out.len() as u64, Type::MxFp4.bytes(32));
        // Twice the magnitudes: -6, 3 and 0.5.
        assert_eq!(out[0], 128);
        assert_eq!((out[1] & 15, out[2] & 15, out[1] >> 4), (15, 5, 1));
    }

    #[test]
    fn blocks_have_the_sizes_of_their_types() {
        for kind in [
            Type::F32,
            Type::F16,
            Type::Q8_0,
            Type::Q4_0,
            Type::Q5_0,
            Type::Q4K,
            Type::Q6K,
            Type::MxFp4,
        ] {
            let mut out = Vec::new();
            write_random(&mut out, &mut Random::new(1), kind, 512, 1.0).expect("memory");
            assert_eq!(out.len() as u64, kind.bytes(512), "{kind:?}");
        }
    }

    #[test]
    fn zero_deviation_writes_zeros() {
        let mut out = Vec::new();
        write_random(&mut out, &mut Random::new(1), Type::Q8_0, 64, 0.0).expect("memory");
        assert_eq!(out, vec![0; 68]);
    }
}
