//! Rows of activations as the kernels read them: integers of 8 bits in blocks, and factors of each block.

use crate::panel::BLOCK;

/// Where the parts of a quantised activation are. Its numbers come first, then the [`Factors`] of each block.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    cols: usize,
}

/// What a block of activations is multiplied and corrected by.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Factors {
    /// What the integers are multiplied by to get the numbers.
    pub(crate) scale: f32,
    /// What a sum of products with weights that are 128 too large starts from: over the block, and over its second half.
    pub(crate) corrections: [i32; 2],
    /// The sum of the numbers, as rounded.
    pub(crate) total: f32,
}

/// Bytes of a block's factors.
const FACTORS: usize = 16;

impl Factors {
    pub(crate) const ZERO: Self = Self {
        scale: 0.0,
        corrections: [0; 2],
        total: 0.0,
    };

    /// Reads what [`Layout::quantise`] wrote.
    #[inline]
    pub(crate) fn read(bytes: &[u8; FACTORS]) -> Self {
        let four = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        Self {
            scale: f32::from_le_bytes(four(0)),
            corrections: [i32::from_le_bytes(four(4)), i32::from_le_bytes(four(8))],
            total: f32::from_le_bytes(four(12)),
        }
    }
}

/// Taken from a weight's unsigned byte to get the weight.
const OFFSET: i32 = 128;

/// Blocks whose largest number is below this are zero: the factor from numbers to integers would overflow. The 16-bit scales of
/// stock llama.cpp end at 6e-8.
const SMALLEST: f32 = 1e-30;

impl Layout {
    pub(crate) fn new(cols: usize) -> Self {
        Self { cols }
    }

    pub(crate) fn blocks(self) -> usize {
        self.cols / BLOCK
    }

    /// Bytes of a row: an odd number of cache lines, so that the rows of a tile do not fall on the same few sets of a cache.
    pub(crate) fn bytes(self) -> usize {
        (self.place(self.blocks()).div_ceil(64) | 1) * 64
    }

    /// Where the factors of a block are.
    fn place(self, block: usize) -> usize {
        self.cols + block * FACTORS
    }

    /// The integers of the blocks of a row, and their factors.
    pub(crate) fn parts(self, row: &[u8]) -> (&[[u8; BLOCK]], &[[u8; FACTORS]]) {
        let (integers, factors) = row.split_at(self.cols);
        (
            integers.as_chunks().0,
            &factors.as_chunks().0[..self.blocks()],
        )
    }

    /// Quantises one row.
    pub(crate) fn quantise(self, source: &[f32], row: &mut [u8]) {
        for (block, source) in source.chunks_exact(BLOCK).enumerate() {
            let (factor, scale) = factors(source);
            let mut sums = [0; 2];
            for ((column, value), integer) in
                source.iter().enumerate().zip(&mut row[block * BLOCK..])
            {
                let rounded = (value * factor).round_ties_even() as i8;
                sums[2 * column / BLOCK] += i32::from(rounded);
                *integer = rounded.cast_unsigned();
            }
            let factors = [
                scale.to_bits(),
                (-OFFSET * (sums[0] + sums[1])).cast_unsigned(),
                (-OFFSET * sums[1]).cast_unsigned(),
                (scale * (sums[0] + sums[1]) as f32).to_bits(),
            ];
            for (bits, out) in factors
                .iter()
                .zip(row[self.place(block)..].chunks_exact_mut(4))
            {
                out.copy_from_slice(&bits.to_le_bytes());
            }
        }
    }
}

/// What turns the numbers of a block into integers, and what turns those back. A block with a number that is not finite has a scale
/// that is none, so that what is computed from it is none either.
fn factors(source: &[f32]) -> (f32, f32) {
    let largest = source
        .iter()
        .fold(0f32, |largest, value| largest.max(value.abs()));
    if !source.iter().all(|value| value.is_finite()) {
        (0.0, f32::NAN)
    } else if largest < SMALLEST {
        (0.0, 0.0)
    } else {
        (127.0 / largest, largest / 127.0)
    }
}
