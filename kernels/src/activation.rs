//! Rows of activations as the kernels read them: integers of 8 bits, a scale for each block of them, and the sum of each block.

use crate::panel::BLOCK;

/// Where the parts of a quantised activation are. Its numbers come first, then a scale (`f32`) for each block, then the sum of each block's
/// numbers (`i32`).
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    cols: usize,
}

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

    /// Where the scales begin.
    pub(crate) fn scales(self) -> usize {
        self.cols
    }

    /// Where the sums begin.
    pub(crate) fn sums(self) -> usize {
        self.cols + 4 * self.blocks()
    }

    /// Bytes of a row: an odd number of cache lines, so that the rows of a tile do not fall on the same few sets of a cache.
    pub(crate) fn bytes(self) -> usize {
        ((self.cols + 8 * self.blocks()).div_ceil(64) | 1) * 64
    }

    /// The numbers of a block.
    pub(crate) fn numbers(self, row: &[u8], block: usize) -> &[u8] {
        &row[block * BLOCK..][..BLOCK]
    }

    /// The scale of a block.
    pub(crate) fn scale(self, row: &[u8], block: usize) -> f32 {
        f32::from_le_bytes(four(row, self.scales() + 4 * block))
    }

    /// Quantises one row.
    pub(crate) fn quantise(self, source: &[f32], row: &mut [u8]) {
        for (block, source) in source.chunks_exact(BLOCK).enumerate() {
            let (factor, scale) = factors(source);
            let mut sum = 0;
            for (value, number) in source.iter().zip(&mut row[block * BLOCK..]) {
                let rounded = (value * factor).round_ties_even() as i8;
                sum += i32::from(rounded);
                *number = rounded.to_le_bytes()[0];
            }
            row[self.scales() + 4 * block..][..4].copy_from_slice(&scale.to_le_bytes());
            row[self.sums() + 4 * block..][..4].copy_from_slice(&sum.to_le_bytes());
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

fn four(bytes: &[u8], at: usize) -> [u8; 4] {
    [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]
}
