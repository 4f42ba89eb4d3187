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
use crate::data::panel::{self, BLOCK, ROWS};
use crate::x86::avx2::{self, LANES, SUMS, Sums, VECTORS, add_scaled};
use crate::x86::counts::with_count;
use crate::x86::strip::{Record, Strip};
use crate::x86::vector::Avx2;
use crate::x86::{expand, units};

/// Activations of a tile: so many use a record before the next one is read.
pub(crate) const TOKENS: usize = 56;

/// Columns that one instruction multiplies: two neighbors, and the next two.
const GROUP: usize = 4;
/// Words of a group beside each other: those of its first and third column, or of its second and
/// fourth.
const PAIR: usize = 2;

/// A block of the activations of a tile.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct WordBlock {
    /// Of each group the second, the fourth, the first and the third: each meets the weight of its
    /// neighbor.
    integers: [[i16; BLOCK]; TOKENS],
    scales: [f32; TOKENS],
    /// First values of an activation's sums: the negative products of its neighbors.
    starts: [i32; TOKENS],
}

impl WordBlock {
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

/// Returns true if weights of a format are multiplied here.
pub(crate) fn suits(format: Format) -> bool {
    matches!(format, Format::Q8_0 | Format::Iq4Nl | Format::Iq4Xs)
}

/// Expands whole units to signed words, and to what the sums of each row start from.
///
/// # Safety
/// The CPU must have AVX2 and F16C.
#[target_feature(enable = "avx2,f16c")]
pub(crate) unsafe fn expand(format: Format, source: &[u8], records: &mut [Record<i16>]) {
    let low = _mm256_set1_epi8(15);
    // Groups of the first half are the lower bits of bytes, those of the second the upper.
    let half = panel::GROUPS / 2 * panel::GROUP;
    // SAFETY: the CPU has the instructions.
    unsafe {
        let table = units::table::<Avx2>(format, 0);
        for (unit, records) in units::units(format, source, records) {
            for (block, record) in records.iter_mut().enumerate() {
                if format == Format::Q8_0 {
                    put(record, |at| unit.bytes::<Avx2>(at));
                    continue;
                }
                put(record, |at| {
                    let both = unit.bytes::<Avx2>(block * half + at % half);
                    let bits = if at < half {
                        both
                    } else {
                        _mm256_srli_epi16::<4>(both)
                    };
                    _mm256_shuffle_epi8(table, _mm256_and_si256(bits, low))
                });
            }
            if format == Format::Iq4Xs {
                expand::scales_of_blocks::<Avx2, _>(unit, records);
            } else {
                let scales = panel::unit_bytes(format) - 2 * ROWS;
                units::put_halves::<Avx2>(&mut records[0].scales, unit, scales);
            }
        }
    }
}

/// Puts weights, of which a function has the bytes of eight rows from some byte of a panel's
/// groups on, as words, and what sums start from: [`ORIGIN`] less the products of neighbors.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn put(record: &mut Record<i16>, bytes: impl Fn(usize) -> __m256i) {
    let mut starts = [_mm256_set1_epi32(ORIGIN.to_bits().cast_signed()); ROWS / LANES];
    for group in 0..panel::GROUPS {
        for (vector, start) in starts.iter_mut().enumerate() {
            let bytes = bytes(group * panel::GROUP + 32 * vector);
            let firsts = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(bytes));
            let seconds = _mm256_srai_epi16::<8>(bytes);
            *start = _mm256_sub_epi32(*start, _mm256_madd_epi16(firsts, seconds));
            for (pair, words) in [firsts, seconds].into_iter().enumerate() {
                let place = &mut record.weights[place(group, pair, LANES * vector)..][..16];
                // SAFETY: the slice has 16 words.
                unsafe { _mm256_storeu_si256(place.as_mut_ptr().cast(), words) };
            }
        }
    }
    for (place, start) in record.others.chunks_exact_mut(LANES).zip(starts) {
        // SAFETY: the slice has eight numbers.
        unsafe { _mm256_storeu_si256(place.as_mut_ptr().cast(), start) };
    }
}

/// Returns the place of a group's words in a record, from a row on: those of the first and third
/// column, or of the second and fourth.
#[inline]
fn place(group: usize, pair: usize, row: usize) -> usize {
    ROWS * (GROUP * group + PAIR * pair) + PAIR * row
}

/// Multiplies activations by records.
///
/// # Safety
/// The CPU must have the instructions; the strip's activations and the places of its results must
/// exist.
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn multiply(strip: &Strip<'_, WordBlock, i16>) {
    // SAFETY: as the caller promises.
    unsafe {
        avx2::tiles::<TOKENS, _, _>(
            strip,
            |record, block, (token, left), totals| with_count!(left.min(SUMS), M in [1 2 3 4], record_times::<M>(record, block, token, totals)),
        );
    }
}

/// Adds the products of a record and some activations of a block, from `token`. Says how many these
/// are.
#[target_feature(enable = "avx2,fma")]
unsafe fn record_times<const M: usize>(
    record: &Record<i16>,
    block: &WordBlock,
    token: usize,
    totals: &mut [[f32; ROWS]],
) -> usize {
    let factors = avx2::SumFactors {
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
                let weights: [[_; 2]; VECTORS] = array::from_fn(|vector| {
                    [0, 1].map(|pair| {
                        let at = place(group, pair, row + LANES * vector);
                        _mm256_loadu_si256(record.weights.as_ptr().add(at).cast())
                    })
                });
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
