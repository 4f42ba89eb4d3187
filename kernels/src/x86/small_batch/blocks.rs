//! Blocks of 32 weights of 8, 5 or 4 bits.

use std::arch::x86_64::*;
use std::array;

use super::Unit;
use super::sums::{LANES, VECTORS, add_scaled, four, halves, start, take_minima};
use crate::data::activation::BYTES;
use crate::data::panel::{GROUP, GROUPS, ROWS};
use crate::x86::vector::{Avx2, Vector};

/// Blocks that are stored in some way.
pub(super) struct Blocks<const KIND: u8>;

/// In 8 bits. These and [`TABLE`] and [`SCALED`] are multiplied as signed bytes.
pub(super) const EIGHT: u8 = 0;
/// Weights of 4 bits.
pub(super) const FOUR: u8 = 1;
/// Weights of 5 bits.
pub(super) const FIVE: u8 = 2;
/// Weights of 5 bits with a minimum.
pub(super) const MINIMA: u8 = 3;
/// As 4-bit indexes into a table.
pub(super) const TABLE: u8 = 4;
/// As such indexes, with scales that are powers of two.
pub(super) const POWERS: u8 = 5;
/// As such indexes, eight blocks to a unit, whose scale each block has a factor for.
pub(super) const SCALED: u8 = 6;

/// Groups of columns that have bytes of their own.
const fn groups(kind: u8) -> usize {
    if kind == EIGHT { GROUPS } else { GROUPS / 2 }
}

/// Bytes of a block before the scales: those of groups, and of the fifth bits of all groups.
const fn weight_bytes(kind: u8) -> usize {
    match kind {
        FIVE | MINIMA => (groups(kind) + 1) * GROUP,
        _ => groups(kind) * GROUP,
    }
}

impl<const KIND: u8> Unit for Blocks<KIND> {
    type Vector = Avx2;
    type Totals = [__m256; VECTORS];
    const OFFSET: u8 = match KIND {
        FOUR => 8,
        POWERS => 12,
        FIVE => 16,
        _ => 0,
    };
    const BLOCKS: usize = if KIND == SCALED { 8 } else { 1 };
    const PARTS: usize = Self::BLOCKS;
    const BYTES: usize = Self::BLOCKS * weight_bytes(KIND)
        + match KIND {
            POWERS => ROWS,
            MINIMA => 4 * ROWS,
            SCALED => (8 + 2) * ROWS,
            _ => 2 * ROWS,
        };

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn add<const M: usize>(
        unit: *const u8,
        part: usize,
        table: __m256i,
        (rows, at): (&[*const u8; M], usize),
        totals: &mut [Self::Totals; M],
    ) {
        let low = _mm256_set1_epi8(15);
        let fifth = _mm256_set1_epi8(16);
        let ones = _mm256_set1_epi16(1);
        // SAFETY: as the caller promises.
        unsafe {
            let rows = rows.map(|row| row.add(at + part * BYTES));
            let weights = unit.add(part * const { weight_bytes(KIND) });
            let mut sums: [[__m256i; VECTORS]; M] =
                array::from_fn(|t| [start(rows[t], 0, Self::OFFSET); VECTORS]);
            // Sums of 16 bits have room for the products of all weights of 4 bits, and of half of
            // the weights of 5 bits and of `MXFP4`.
            let mut pairs = [[[_mm256_setzero_si256(); 2]; VECTORS]; M];
            for group in 0..const { groups(KIND) } {
                for vector in 0..VECTORS {
                    let bytes = _mm256_loadu_si256(weights.add(GROUP * group + 32 * vector).cast());
                    let high = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), low);
                    let mut halves = [_mm256_and_si256(bytes, low), high];
                    if KIND == FIVE || KIND == MINIMA {
                        // The bit of a group is as many places up; it belongs at 16.
                        let bits = weights.add(const { groups(KIND) * GROUP } + 32 * vector);
                        let bits = _mm256_loadu_si256(bits.cast());
                        let up = _mm_cvtsi32_si128(4 - group as i32);
                        let down = _mm_cvtsi32_si128(group as i32);
                        let bits = [_mm256_sll_epi16(bits, up), _mm256_srl_epi16(bits, down)];
                        for (half, bits) in halves.iter_mut().zip(bits) {
                            *half = _mm256_or_si256(*half, _mm256_and_si256(bits, fifth));
                        }
                    }
                    if KIND == TABLE || KIND == SCALED || KIND == POWERS {
                        halves = halves.map(|indexes| _mm256_shuffle_epi8(table, indexes));
                    }
                    for t in 0..M {
                        let four = |group: usize| four(rows[t], 4 * group);
                        let sum = &mut sums[t][vector];
                        let mut add = |weights: __m256i, group: usize| {
                            let products = _mm256_maddubs_epi16(
                                _mm256_abs_epi8(weights),
                                _mm256_sign_epi8(four(group), weights),
                            );
                            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(products, ones));
                        };
                        match KIND {
                            EIGHT => add(bytes, group),
                            TABLE | SCALED => {
                                for (half, weights) in halves.into_iter().enumerate() {
                                    add(weights, group + half * GROUPS / 2);
                                }
                            }
                            _ => {
                                for (half, weights) in halves.into_iter().enumerate() {
                                    let four = four(group + half * GROUPS / 2);
                                    let products = _mm256_maddubs_epi16(weights, four);
                                    let pairs = &mut pairs[t][vector];
                                    let pairs = &mut pairs[if KIND == FOUR { 0 } else { half }];
                                    *pairs = _mm256_add_epi16(*pairs, products);
                                }
                            }
                        }
                    }
                }
            }
            let factors = unit.add(Self::BLOCKS * const { weight_bytes(KIND) });
            for vector in 0..VECTORS {
                let row = LANES * vector;
                let scales = match KIND {
                    POWERS => Avx2::powers(factors.add(row)),
                    SCALED => {
                        let of_block = _mm_loadl_epi64(factors.add(part * ROWS + row).cast());
                        let of_block = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(of_block));
                        _mm256_mul_ps(halves(factors.add(8 * ROWS + 2 * row)), of_block)
                    }
                    _ => halves(factors.add(2 * row)),
                };
                for t in 0..M {
                    let mut sum = sums[t][vector];
                    if !matches!(KIND, EIGHT | TABLE | SCALED) {
                        for pairs in pairs[t][vector] {
                            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
                        }
                    }
                    let total = &mut totals[t][vector];
                    add_scaled(sum, scales, rows[t], total);
                    if KIND == MINIMA {
                        take_minima(halves(factors.add(2 * (ROWS + row))), rows[t], total);
                    }
                }
            }
        }
    }
}
