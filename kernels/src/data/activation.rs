//! Activations as the kernels read them: blocks of integers of 8 bits, each with its factors.

use crate::data::panel::BLOCK;

/// Memory layout of quantized activations. Each block has its integers and then its
/// [`Factors`].
#[derive(Clone, Copy)]
pub(crate) struct ActivationLayout {
    cols: usize,
}

/// Factors and corrections of a block of activations.
#[derive(Clone, Copy)]
pub(crate) struct Factors {
    /// Value of the integer 1.
    pub(crate) scale: f32,
    /// Initial values of dot products with weights that are 128 too large: the sums then end as the
    /// bits of the right sum plus [`ORIGIN`]. Over the block, its first half and its second half.
    pub(crate) starts: [i32; 3],
    /// The sum of the rounded values.
    pub(crate) total: f32,
}

/// 1.5 * 2^23, the magic number for converting integers to floats. Adjacent floats are 1 apart
/// here, so adding an integer below 2^22 to its bits gives the bits of the float plus that integer.
/// An integer sum that starts from its bits, such as that of a block, needs no conversion.
pub(crate) const ORIGIN: f32 = 12_582_912.0;

/// Bytes of a block's factors.
const FACTORS: usize = 20;
/// Bytes of a block: its integers and factors.
pub(crate) const BYTES: usize = BLOCK + FACTORS;

impl Factors {
    /// Reads what [`ActivationLayout::quantize`] wrote.
    #[inline]
    pub(crate) fn read(bytes: &[u8; FACTORS]) -> Self {
        let four = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        Self {
            scale: f32::from_le_bytes(four(0)),
            starts: [4, 8, 12].map(|at| i32::from_le_bytes(four(at))),
            total: f32::from_le_bytes(four(16)),
        }
    }

    /// The sums of the rounded values of both halves, or of all and nothing.
    #[inline]
    pub(crate) fn totals(self, of_halves: bool) -> [f32; 2] {
        if !of_halves {
            return [self.total, 0.0];
        }
        let origin = ORIGIN.to_bits().cast_signed();
        [1, 2].map(|half| self.scale * ((origin - self.starts[half]) / OFFSET) as f32)
    }
}

/// Taken from a weight's unsigned byte to get the weight.
const OFFSET: i32 = 128;

/// Blocks whose largest value is below this are zero: the factor from values to integers would
/// overflow. The 16-bit scales of stock llama.cpp end at 6e-8.
const SMALLEST: f32 = 1e-30;

impl ActivationLayout {
    pub(crate) fn new(cols: usize) -> Self {
        Self { cols }
    }

    pub(crate) fn blocks(self) -> usize {
        self.cols / BLOCK
    }

    /// Blocks that a row has room for: an odd number, so that the rows of a tile do not fall on the
    /// same few sets of a cache.
    pub(crate) fn room(self) -> usize {
        self.blocks() | 1
    }

    /// Returns the number of bytes of a quantized activation.
    pub(crate) fn bytes(self) -> usize {
        self.room() * BYTES
    }

    /// The integers of each block of an activation, and their factors.
    pub(crate) fn blocks_of(
        self,
        activations: &[u8],
        number: usize,
    ) -> impl Iterator<Item = (&[u8; BLOCK], Factors)> {
        let row = &activations[number * self.bytes()..][..self.blocks() * BYTES];
        row.as_chunks::<BYTES>().0.iter().map(|block| {
            let (integers, factors) = block.split_first_chunk().expect("a block's integers");
            let factors = factors.first_chunk().expect("a block's factors");
            (integers, Factors::read(factors))
        })
    }

    /// Quantizes an activation into its row.
    pub(crate) fn quantize(self, source: &[f32], row: &mut [u8]) {
        self.quantize_blocks(source, row, Integers::quantize);
    }

    /// Quantizes one row, each block by a function.
    #[expect(
        clippy::inline_always,
        reason = "in a function of its own it would lack the instructions of the caller"
    )]
    #[inline(always)]
    pub(crate) fn quantize_blocks(
        self,
        source: &[f32],
        row: &mut [u8],
        integers: impl Fn(&[f32; BLOCK]) -> Integers,
    ) {
        let blocks = &mut row.as_chunks_mut::<BYTES>().0[..self.blocks()];
        for (source, row) in source.as_chunks().0.iter().zip(blocks) {
            let Integers {
                values,
                scale,
                sums,
            } = integers(source);
            let (integers, place) = row.split_at_mut(BLOCK);
            integers.copy_from_slice(&values);
            let sum = sums[0] + sums[1];
            let start = |sum: i32| ORIGIN.to_bits().wrapping_add_signed(-OFFSET * sum);
            let factors = [
                scale.to_bits(),
                start(sum),
                start(sums[0]),
                start(sums[1]),
                (scale * sum as f32).to_bits(),
            ];
            for (bits, out) in factors.iter().zip(place.chunks_exact_mut(4)) {
                out.copy_from_slice(&bits.to_le_bytes());
            }
        }
    }
}

/// A block of activations as integers.
pub(crate) struct Integers {
    /// Signed integers, as bytes.
    pub(crate) values: [u8; BLOCK],
    /// Value of the integer 1.
    pub(crate) scale: f32,
    /// Sums of the integers of both halves.
    pub(crate) sums: [i32; 2],
}

impl Integers {
    fn quantize(source: &[f32; BLOCK]) -> Self {
        let largest = source
            .iter()
            .fold(0f32, |largest, value| largest.max(value.abs()));
        let finite = source.iter().all(|value| value.is_finite());
        let Some((factor, scale)) = Self::factor(largest, finite) else {
            return Self::zero(f32::NAN);
        };
        let mut integers = Self::zero(scale);
        for (column, (value, byte)) in source.iter().zip(&mut integers.values).enumerate() {
            let rounded = (value * factor).round_ties_even() as i8;
            integers.sums[2 * column / BLOCK] += i32::from(rounded);
            *byte = rounded.cast_unsigned();
        }
        integers
    }

    /// Creates a block of zeros.
    pub(crate) fn zero(scale: f32) -> Self {
        Self {
            values: [0; BLOCK],
            scale,
            sums: [0; 2],
        }
    }

    /// The factors from the values of a block to integers and back. `None` if a value is not
    /// finite: the scale of such a block is NaN, and so are all results computed from it.
    #[inline]
    pub(crate) fn factor(largest: f32, finite: bool) -> Option<(f32, f32)> {
        if !finite {
            None
        } else if largest < SMALLEST {
            Some((0.0, 0.0))
        } else {
            Some((127.0 / largest, largest / 127.0))
        }
    }
}
