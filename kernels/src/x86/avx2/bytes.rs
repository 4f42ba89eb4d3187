//! Unsigned weights of a byte.
//!
//! AVX-VNNI multiplies them and adds by fours. AVX2 adds products by twos in 16 bits, which hold
//! those of a number of groups that depends on how large weights can be, before it widens them:
//! eight groups of 4 bits, four of 5, two of 6.

use std::arch::asm;
use std::arch::x86_64::*;
use std::array;
use std::hint::black_box;

use crate::data::activation::{Factors, ORIGIN};
use crate::data::format::Format;
use crate::data::panel::{BLOCK, ROWS};
use crate::x86::avx2::{self, LANES, SUMS, Sums, VECTORS, add_scaled};
use crate::x86::counts::with_count;
use crate::x86::strip::{Record, Strip};

/// Number of activations of a tile.
pub(crate) const TOKENS: usize = 16;

/// A block of the activations of a tile.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct ByteBlock {
    integers: [[u8; BLOCK]; TOKENS],
    /// The factors, as in [`Factors`].
    scales: [f32; TOKENS],
    /// Of all columns, or of the first half and of the second.
    totals: [[f32; TOKENS]; 2],
    starts: [[i32; 3]; TOKENS],
}

impl ByteBlock {
    pub(crate) const ZERO: Self = Self {
        integers: [[0; BLOCK]; TOKENS],
        scales: [0.0; TOKENS],
        totals: [[0.0; TOKENS]; 2],
        starts: [[0; 3]; TOKENS],
    };

    /// Puts an activation's integers and factors, corrected for weights of a format that are too
    /// large by `offset`.
    pub(crate) fn put(
        &mut self,
        token: usize,
        integers: &[u8; BLOCK],
        factors: Factors,
        (format, offset): (Format, u8),
    ) {
        let origin = ORIGIN.to_bits().cast_signed();
        self.integers[token] = *integers;
        self.scales[token] = factors.scale;
        let totals = factors.totals(format == Format::Q2K);
        for (place, total) in self.totals.iter_mut().zip(totals) {
            place[token] = total;
        }
        self.starts[token] = factors
            .starts
            .map(|start| origin + (start - origin) / 128 * i32::from(offset));
    }
}

const PLAIN: u8 = 0;
const MINIMA: u8 = 1;
const HALVES: u8 = 2;
const MINIMA_OF_HALVES: u8 = 3;

/// Number of groups to add in 16 bits with AVX-VNNI, which adds in 32.
const VNNI: usize = 0;

/// Number of groups of a block.
const GROUPS: usize = BLOCK / 4;

/// Multiplies activations by records of unsigned weights of at most 6 bits, with AVX2.
///
/// # Safety
/// The CPU must have the instructions; the strip's activations and the places of its results must
/// exist.
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn multiply(format: Format, strip: &Strip<'_, ByteBlock>) {
    // SAFETY: as the caller promises.
    unsafe {
        match format {
            Format::Q4_0 => tiles::<PLAIN, 8>(strip),
            Format::Q5_0 | Format::MxFp4 => tiles::<PLAIN, 4>(strip),
            Format::Q2K => tiles::<MINIMA_OF_HALVES, 2>(strip),
            Format::Q3K => tiles::<HALVES, 4>(strip),
            Format::Q4K => tiles::<MINIMA, 8>(strip),
            Format::Q5_1 | Format::Q5K => tiles::<MINIMA, 4>(strip),
            Format::Q6K => tiles::<HALVES, 2>(strip),
            Format::Q8_0 | Format::Iq4Nl | Format::Iq4Xs => {
                unreachable!("{format:?} is multiplied as words")
            }
            Format::F16 | Format::Bf16 => unreachable!("{format:?} has no blocks"),
        }
    }
}

/// Multiplies activations by records of unsigned weights with AVX-VNNI.
///
/// # Safety
/// As [`multiply`].
#[target_feature(enable = "avx2,fma,avxvnni")]
pub(crate) unsafe fn multiply_vnni(format: Format, strip: &Strip<'_, ByteBlock>) {
    // SAFETY: as the caller promises.
    unsafe {
        match format {
            Format::Q8_0
            | Format::Q4_0
            | Format::Q5_0
            | Format::MxFp4
            | Format::Iq4Nl
            | Format::Iq4Xs => tiles::<PLAIN, VNNI>(strip),
            Format::Q5_1 | Format::Q4K | Format::Q5K => tiles::<MINIMA, VNNI>(strip),
            Format::Q2K => tiles::<MINIMA_OF_HALVES, VNNI>(strip),
            Format::Q3K | Format::Q6K => tiles::<HALVES, VNNI>(strip),
            Format::F16 | Format::Bf16 => unreachable!("{format:?} has no blocks"),
        }
    }
}

/// Multiplies a strip of weights of a shape, of which so many groups are added in 16 bits.
#[expect(
    clippy::inline_always,
    reason = "in a function of its own it would lack the instructions of the caller"
)]
#[inline(always)]
unsafe fn tiles<const SHAPE: u8, const DEPTH: usize>(strip: &Strip<'_, ByteBlock>) {
    // SAFETY: as the caller promises.
    unsafe {
        avx2::tiles::<TOKENS, _, _>(
            strip,
            |record, block, (token, left), totals| with_count!(left.min(SUMS), M in [1 2 3 4], record_times::<SHAPE, DEPTH, M>(record, block, token, totals)),
        );
    }
}

/// Adds the products of a record and some activations of a block, from `token`. Says how many these
/// are.
#[expect(clippy::inline_always, reason = "as above")]
#[inline(always)]
unsafe fn record_times<const SHAPE: u8, const DEPTH: usize, const M: usize>(
    record: &Record,
    block: &ByteBlock,
    token: usize,
    totals: &mut [[f32; ROWS]],
) -> usize {
    let halves = if SHAPE == HALVES { 2 } else { 1 };
    let groups = GROUPS / halves;
    for row in (0..ROWS).step_by(LANES * VECTORS) {
        // Otherwise integers would be read before this loop, which has no registers for them.
        let block = black_box(block);
        for half in 0..halves {
            // SAFETY: the CPU has the instructions; records, blocks and totals have all that is
            // read and written.
            unsafe {
                let first = groups * half;
                let weights = record.weights.as_ptr().add(4 * (ROWS * first + row));
                let integers =
                    array::from_fn(|t| block.integers[token + t].as_ptr().add(4 * first));
                let part = if SHAPE == HALVES { 1 + half } else { 0 };
                let starts = array::from_fn(|t| block.starts[token + t][part]);
                let factors = avx2::SumFactors {
                    scales: if half == 0 {
                        &record.scales
                    } else {
                        &record.others
                    },
                    of_activations: &block.scales[token..],
                    minima: [
                        matches!(SHAPE, MINIMA | MINIMA_OF_HALVES)
                            .then(|| (&record.others, &block.totals[0][token..])),
                        (SHAPE == MINIMA_OF_HALVES)
                            .then(|| (&record.second_minima, &block.totals[1][token..])),
                    ],
                };
                let sums = sums::<DEPTH, M>(weights, groups, integers, starts);
                add_scaled(sums, &factors, row, totals);
            }
        }
    }
    M
}

/// The sums of the products of some groups.
#[expect(clippy::inline_always, reason = "as above")]
#[inline(always)]
unsafe fn sums<const DEPTH: usize, const M: usize>(
    weights: *const u8,
    groups: usize,
    integers: [*const u8; M],
    starts: [i32; M],
) -> Sums<M> {
    // SAFETY: the CPU has the instructions, and there are weights and integers for each group.
    unsafe {
        let mut sums: Sums<M> = array::from_fn(|t| [_mm256_set1_epi32(starts[t]); VECTORS]);
        let depth = if DEPTH == VNNI { groups } else { DEPTH };
        for chunk in (0..groups).step_by(depth) {
            let mut pairs: Sums<M> = [[_mm256_setzero_si256(); VECTORS]; M];
            for group in chunk..chunk + depth {
                let weights: [_; VECTORS] = array::from_fn(|vector| {
                    let at = 4 * (ROWS * group + LANES * vector);
                    _mm256_loadu_si256(weights.add(at).cast())
                });
                for t in 0..M {
                    let four = integers[t].add(4 * group).cast::<i32>().read_unaligned();
                    let four = _mm256_set1_epi32(four);
                    for vector in 0..VECTORS {
                        if DEPTH == VNNI {
                            let sum = &mut sums[t][vector];
                            *sum = _mm256_dpbusd_avx_epi32(*sum, weights[vector], four);
                        } else {
                            let products = _mm256_maddubs_epi16(weights[vector], four);
                            let pair = _mm256_add_epi16(pairs[t][vector], products);
                            pairs[t][vector] = settle(pair);
                        }
                    }
                }
            }
            if DEPTH != VNNI {
                for t in 0..M {
                    for vector in 0..VECTORS {
                        let sum = _mm256_madd_epi16(pairs[t][vector], _mm256_set1_epi16(1));
                        sums[t][vector] = _mm256_add_epi32(sums[t][vector], sum);
                    }
                }
            }
        }
        sums
    }
}

/// Returns a sum, and lets the compiler move neither what it is computed from nor any access to
/// memory past here. Otherwise the compiler mixes several groups, whose weights, integers and
/// products have more values than there are registers.
#[inline]
#[target_feature(enable = "avx2")]
fn settle(mut sum: __m256i) -> __m256i {
    // SAFETY: there is no instruction, and so nothing that changes.
    unsafe { asm!("/* {0} */", inout(ymm_reg) sum, options(nostack, preserves_flags)) };
    sum
}
