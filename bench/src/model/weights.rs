//! Random weights in ggml's number types.

use std::io::{self, Write};

use crate::random::Random;

/// Weights that share a scale in the quantized types.
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
}

impl Type {
    /// ggml's number of the type.
    pub fn ggml(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q4_0 => 2,
            Self::Q8_0 => 8,
        }
    }

    /// Bytes of so many numbers.
    pub fn bytes(self, numbers: u64) -> u64 {
        match self {
            Self::F32 => 4 * numbers,
            Self::F16 => 2 * numbers,
            Self::Q8_0 => numbers / BLOCK as u64 * 34,
            Self::Q4_0 => numbers / BLOCK as u64 * 18,
        }
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
    let mut block = [0.0; BLOCK];
    let mut bytes = Vec::with_capacity(4 * BLOCK);
    let mut left = count as usize;
    while left > 0 {
        let block = &mut block[..left.min(BLOCK)];
        block.fill_with(|| deviation * random.weight());
        bytes.clear();
        encode(block, kind, &mut bytes);
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
            // The number farthest from zero becomes -8; the others are counted from there.
            let farthest = block.iter().fold(0.0_f32, |far, number| {
                if number.abs() > far.abs() {
                    *number
                } else {
                    far
                }
            });
            let scale = farthest / -8.0;
            out.extend(half(scale).to_le_bytes());
            let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
            let nibble = |number: f32| ((number * inverse + 8.5) as u8).min(15);
            let (low, high) = block.split_at(BLOCK / 2);
            out.extend(
                low.iter()
                    .zip(high)
                    .map(|(low, high)| nibble(*low) | (nibble(*high) << 4)),
            );
        }
    }
}

/// The bits of the 16-bit float next to `number`; numbers too small for its normal range become 0, and none here is too large.
fn half(number: f32) -> u16 {
    let bits = number.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let exponent = ((bits >> 23) & 0xff) as i32 - 127 + 15;
    if exponent <= 0 {
        return sign;
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
    fn zero_deviation_writes_zeros() {
        let mut out = Vec::new();
        write_random(&mut out, &mut Random::new(1), Type::Q8_0, 64, 0.0).expect("memory");
        assert_eq!(out, vec![0; 68]);
    }
}
