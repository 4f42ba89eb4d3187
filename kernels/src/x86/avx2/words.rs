//! Signed weights of 8 bits and of tables, as words of 16 bits.
//!
//! Bytes would be multiplied by fewer instructions, but products of two signed ones of 8 bits fill
//! 16 bits: each would have to be widened, after a sign moved from the weight to the activation.
//!
//! Two products take one multiplication, as S. Winograd found in 1968: with weights `a` and `b` and
//! integers `x` and `y` of an activation, `a x + b y = (a + y)(b + x) - a b - x y`. What is taken
//! away depends on the weights or on the activation alone. It is computed once, and sums start from
//! it. So half of the multiplications become additions, which more units of a CPU can do.

use std::arch::x86_64::*;
use std::array;
use std::hint::black_box;

use crate::data::activation::{Factors, ORIGIN};
use crate::data::format::Format;
use crate::data::panel::{BLOCK, ROWS};
use crate::x86::avx2::{self, LANES, SUMS, Sums, TOKENS, VECTORS, add_scaled};
use crate::x86::strip::{Record, Strip};

/// Columns that one instruction multiplies: two neighbors, and the next two.
const GROUP: usize = 4;
/// Words of a group beside each other: those of its first and third column, or of its second and
/// fourth.
const PAIR: usize = 2;

/// A block of the activations of a tile.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Block {
    /// Of each group the second, the fourth, the first and the third: each meets the weight of its
    /// neighbor.
    integers: [[i16; BLOCK]; TOKENS],
    scales: [f32; TOKENS],
    /// What the sums of an activation start from: less the products of its neighbors.
    starts: [i32; TOKENS],
}

impl Block {
    pub(crate) const ZERO: Self = Self {
        integers: [[0; BLOCK]; TOKENS],
        scales: [0.0; TOKENS],
        starts: [0; TOKENS],
    };

    /// Puts an activation's integers and their factor.
    ///
    /// # Safety
    /// The CPU must have AVX2.
    #[target_feature(enable = "avx2")]
    pub(crate) unsafe fn put(&mut self, token: usize, integers: &[u8; BLOCK], factors: Factors) {
        let order = _mm_set_epi8(13, 12, 9, 8, 15, 14, 11, 10, 5, 4, 1, 0, 7, 6, 3, 2);
        let order = _mm256_broadcastsi128_si256(order);
        let place = &mut self.integers[token];
        let mut products = _mm256_setzero_si256();
        for at in (0..BLOCK).step_by(16) {
            let (from, to) = (&integers[at..at + 16], &mut place[at..at + 16]);
            // SAFETY: the slices have 16 elements.
            unsafe {
                let words = _mm256_cvtepi8_epi16(_mm_loadu_si128(from.as_ptr().cast()));
                let words = _mm256_shuffle_epi8(words, order);
                _mm256_storeu_si256(to.as_mut_ptr().cast(), words);
                let others = _mm256_shuffle_epi32::<0b10_11_00_01>(words);
                products = _mm256_add_epi32(products, _mm256_madd_epi16(words, others));
            }
        }
        // Those of a group are there twice.
        let sum = _mm_add_epi32(
            _mm256_castsi256_si128(products),
            _mm256_extracti128_si256::<1>(products),
        );
        let sum = _mm_add_epi32(sum, _mm_unpackhi_epi64(sum, sum));
        self.starts[token] = -_mm_cvtsi128_si32(sum);
        self.scales[token] = factors.scale;
    }
}

/// Whether weights of a format are multiplied here.
pub(crate) fn suits(format: Format) -> bool {
    matches!(format, Format::Q8_0 | Format::Iq4Nl | Format::Iq4Xs)
}

/// Puts what the sums of each row start from: [`ORIGIN`] less the products of neighboring weights.
///
/// # Safety
/// The CPU must have AVX2.
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn put_starts(records: &mut [Record<i16>]) {
    for record in records {
        for row in (0..ROWS).step_by(LANES) {
            let mut start = _mm256_set1_epi32(ORIGIN.to_bits().cast_signed());
            for group in 0..BLOCK / GROUP {
                // SAFETY: the CPU has the instructions, and the record all groups of these rows.
                let [firsts, seconds] = unsafe { pairs(record, group, row) };
                start = _mm256_sub_epi32(start, _mm256_madd_epi16(firsts, seconds));
            }
            let starts = &mut record.others[row..row + LANES];
            // SAFETY: the slice has so many.
            unsafe { _mm256_storeu_si256(starts.as_mut_ptr().cast(), start) };
        }
    }
}

/// The words of a group for eight rows: of its first and third column, and of its second and fourth.
///
/// # Safety
/// The CPU must have AVX2; the record must have the group and the rows.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn pairs(record: &Record<i16>, group: usize, row: usize) -> [__m256i; 2] {
    [0, PAIR].map(|first| {
        let at = ROWS * (GROUP * group + first) + PAIR * row;
        // SAFETY: as the caller promises.
        unsafe { _mm256_loadu_si256(record.weights.as_ptr().add(at).cast()) }
    })
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
        // Otherwise integers would be read before this loop, which has no registers for them.
        let block = black_box(block);
        // SAFETY: the CPU has the instructions; records, blocks and totals have all that is read
        // and written.
        unsafe {
            let starts: [_; VECTORS] = array::from_fn(|vector| {
                _mm256_loadu_si256(record.others.as_ptr().add(row + LANES * vector).cast())
            });
            let mut sums: Sums<M> = array::from_fn(|t| {
                let start = _mm256_set1_epi32(*block.starts.get_unchecked(token + t));
                starts.map(|of_row| _mm256_add_epi32(of_row, start))
            });
            for group in 0..BLOCK / GROUP {
                let weights: [_; VECTORS] =
                    array::from_fn(|vector| pairs(record, group, row + LANES * vector));
                for t in 0..M {
                    let four = block.integers[token + t].as_ptr().add(GROUP * group);
                    let four = [0, PAIR].map(|first| {
                        _mm256_set1_epi32(four.add(first).cast::<i32>().read_unaligned())
                    });
                    for vector in 0..VECTORS {
                        let factors: [_; 2] = array::from_fn(|pair| {
                            _mm256_add_epi16(weights[vector][pair], four[pair])
                        });
                        let products = _mm256_madd_epi16(factors[0], factors[1]);
                        sums[t][vector] = _mm256_add_epi32(sums[t][vector], products);
                    }
                }
            }
            add_scaled(sums, &factors, row, totals);
        }
    }
    M
}
