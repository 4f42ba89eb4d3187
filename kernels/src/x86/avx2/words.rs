//! Signed weights of 8 bits and of tables, as words of 16 bits.
//!
//! One instruction multiplies two columns of eight rows and adds the products in 32 bits. Bytes
//! would be multiplied by half as many instructions, but products of two signed ones of 8 bits fill
//! 16 bits: each would have to be widened, after a sign moved from the weight to the activation.

use std::arch::x86_64::*;
use std::array;

use crate::data::activation::{Factors, ORIGIN};
use crate::data::format::Format;
use crate::data::panel::{BLOCK, ROWS};
use crate::x86::avx2::{self, LANES, SUMS, Sums, TOKENS, VECTORS, add_scaled};
use crate::x86::strip::{Record, Strip};

/// Columns that one instruction multiplies.
const PAIR: usize = 2;

/// A block of the activations of a tile.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Block {
    integers: [[i16; BLOCK]; TOKENS],
    scales: [f32; TOKENS],
}

impl Block {
    pub(crate) const ZERO: Self = Self {
        integers: [[0; BLOCK]; TOKENS],
        scales: [0.0; TOKENS],
    };

    /// Puts an activation's integers and their factor.
    pub(crate) fn put(&mut self, token: usize, integers: &[u8; BLOCK], factors: Factors) {
        self.integers[token] = integers.map(|integer| integer.cast_signed().into());
        self.scales[token] = factors.scale;
    }
}

/// Whether weights of a format are multiplied here.
pub(crate) fn suits(format: Format) -> bool {
    matches!(format, Format::Q8_0 | Format::Iq4Nl | Format::Iq4Xs)
}

/// Multiplies activations by records.
///
/// # Safety
/// The CPU must have the instructions; the strip's activations and the places of its results must
/// exist.
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn multiply(strip: &Strip<'_, Block, i16>) {
    // SAFETY: as the caller promises.
    unsafe {
        avx2::tiles(strip, |record, block, (token, left), totals| match left {
            1 => record_times::<1>(record, block, token, totals),
            2 => record_times::<2>(record, block, token, totals),
            3 => record_times::<3>(record, block, token, totals),
            _ => record_times::<SUMS>(record, block, token, totals),
        });
    }
}

/// Adds the products of a record and some activations of a block, from `token`. Says how many these
/// are.
#[target_feature(enable = "avx2,fma")]
unsafe fn record_times<const M: usize>(
    record: &Record<i16>,
    block: &Block,
    token: usize,
    totals: &mut [[f32; ROWS]],
) -> usize {
    let factors = avx2::Factors {
        scales: &record.scales,
        of_activations: &block.scales[token..],
        minima: [None; 2],
    };
    for row in (0..ROWS).step_by(LANES * VECTORS) {
        // SAFETY: the CPU has the instructions; records, blocks and totals have all that is read
        // and written.
        unsafe {
            let weights = record.weights.as_ptr().add(PAIR * row);
            let mut sums: Sums<M> =
                [[_mm256_set1_epi32(ORIGIN.to_bits().cast_signed()); VECTORS]; M];
            for pair in 0..BLOCK / PAIR {
                let weights: [_; VECTORS] = array::from_fn(|vector| {
                    let at = PAIR * (ROWS * pair + LANES * vector);
                    _mm256_loadu_si256(weights.add(at).cast())
                });
                for t in 0..M {
                    let two = block.integers[token + t].as_ptr().add(PAIR * pair);
                    let two = _mm256_set1_epi32(two.cast::<i32>().read_unaligned());
                    for vector in 0..VECTORS {
                        let products = _mm256_madd_epi16(weights[vector], two);
                        sums[t][vector] = _mm256_add_epi32(sums[t][vector], products);
                    }
                }
            }
            add_scaled(sums, &factors, row, totals);
        }
    }
    M
}
