//! Superblocks of 256 weights of 4 to 6 bits, whose blocks share bytes: the first bits of each are
//! of one block, the next of another.

use std::arch::x86_64::*;
use std::array;

use super::Unit;
use super::sums::{LANES, VECTORS, add_scaled, four, halves, start, take_minima};
use crate::data::activation::BYTES;
use crate::data::panel::{BLOCK, GROUP, GROUPS, ROWS};
use crate::x86::vector::Avx2;

/// Superblocks that are stored in some way.
pub(super) struct Superblocks<const KIND: u8>;

/// In 4 bits, with a scale and a minimum for each block.
pub(super) const FOUR_K: u8 = 0;
/// In 5 bits, with a scale and a minimum for each block.
pub(super) const FIVE_K: u8 = 1;
/// In 6 bits, with a scale for each half of a block.
pub(super) const SIX_K: u8 = 2;

/// Bytes of one block as bytes.
const WHOLE: usize = ROWS * BLOCK;
/// The most blocks that share bytes.
const MOST: usize = 4;

/// Returns the number of blocks that share bytes.
const fn shared(kind: u8) -> usize {
    if kind == SIX_K { 4 } else { 2 }
}

/// Parts of a block that have scales of their own.
const fn halves_of_block(kind: u8) -> usize {
    if kind == SIX_K { 2 } else { 1 }
}

/// Returns the number of bytes before the scales.
const fn weight_bytes(kind: u8) -> usize {
    match kind {
        FOUR_K => 4 * WHOLE,
        FIVE_K => 5 * WHOLE,
        _ => 6 * WHOLE,
    }
}

/// Groups whose products are added in 16 bits.
const fn depth(kind: u8) -> usize {
    match kind {
        FOUR_K => 8,
        SIX_K => 2,
        _ => 4,
    }
}

/// The weights of the blocks of a part at some place of each block.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn weights<const KIND: u8>(unit: *const u8, part: usize, at: usize) -> [__m256i; MOST] {
    // SAFETY: as the caller promises.
    let bytes = |whole: usize| unsafe { _mm256_loadu_si256(unit.add(whole * WHOLE + at).cast()) };
    let masked = |bytes, mask| _mm256_and_si256(bytes, _mm256_set1_epi8(mask));
    let down = |bytes, places: usize| _mm256_srl_epi16(bytes, _mm_cvtsi32_si128(places as i32));
    let nibbles = |bytes| [masked(bytes, 15), masked(_mm256_srli_epi16::<4>(bytes), 15)];
    let none = _mm256_setzero_si256();
    match KIND {
        FOUR_K => {
            let [first, second] = nibbles(bytes(part));
            [first, second, none, none]
        }
        FIVE_K => {
            let [first, second] = nibbles(bytes(part));
            // The bit of a block is as many places up; it belongs at 16.
            let bits = down(bytes(4), 2 * part);
            let fifth = |bits| masked(bits, 16);
            [
                _mm256_or_si256(first, fifth(_mm256_slli_epi16::<4>(bits))),
                _mm256_or_si256(second, fifth(_mm256_slli_epi16::<3>(bits))),
                none,
                none,
            ]
        }
        _ => {
            let [first, third] = nibbles(bytes(2 * part));
            let [second, fourth] = nibbles(bytes(2 * part + 1));
            let bits = bytes(4 + part);
            let high = |bits| masked(bits, 48);
            [
                _mm256_or_si256(first, high(_mm256_slli_epi16::<4>(bits))),
                _mm256_or_si256(second, high(_mm256_slli_epi16::<2>(bits))),
                _mm256_or_si256(third, high(bits)),
                _mm256_or_si256(fourth, high(_mm256_srli_epi16::<2>(bits))),
            ]
        }
    }
}

impl<const KIND: u8> Unit for Superblocks<KIND> {
    type Vector = Avx2;
    type Totals = [__m256; VECTORS];
    const OFFSET: u8 = if KIND == SIX_K { 32 } else { 0 };
    const BLOCKS: usize = 8;
    const PARTS: usize = 8 / shared(KIND) * VECTORS;
    const BYTES: usize = weight_bytes(KIND) + 16 * ROWS + if KIND == SIX_K { 2 } else { 4 } * ROWS;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn add<const M: usize>(
        unit: *const u8,
        part: usize,
        _table: __m256i,
        (rows, at): (&[*const u8; M], usize),
        totals: &mut [Self::Totals; M],
    ) {
        let ones = _mm256_set1_epi16(1);
        let (part, vector) = (part / VECTORS, part % VECTORS);
        let (blocks, halves_of_block) = const { (shared(KIND), halves_of_block(KIND)) };
        let groups = GROUPS / halves_of_block;
        // SAFETY: as the caller promises.
        unsafe {
            let block =
                |t: usize, number: usize| rows[t].add(at + (blocks * part + number) * BYTES);
            let mut sums = [[[_mm256_setzero_si256(); M]; MOST]; 2];
            for (half, sums) in sums[..halves_of_block].iter_mut().enumerate() {
                let of_block = if KIND == SIX_K { 1 + half } else { 0 };
                for (number, sums) in sums[..blocks].iter_mut().enumerate() {
                    *sums = array::from_fn(|t| start(block(t, number), of_block, Self::OFFSET));
                }
                for chunk in (half * groups..(half + 1) * groups).step_by(depth(KIND)) {
                    let mut pairs = [[_mm256_setzero_si256(); M]; MOST];
                    for group in chunk..chunk + depth(KIND) {
                        let weights = weights::<KIND>(unit, part, GROUP * group + 32 * vector);
                        for number in 0..blocks {
                            for t in 0..M {
                                let four = four(block(t, number), 4 * group);
                                let products = _mm256_maddubs_epi16(weights[number], four);
                                pairs[number][t] = _mm256_add_epi16(pairs[number][t], products);
                            }
                        }
                    }
                    for number in 0..blocks {
                        for t in 0..M {
                            let products = _mm256_madd_epi16(pairs[number][t], ones);
                            sums[number][t] = _mm256_add_epi32(sums[number][t], products);
                        }
                    }
                }
            }
            let row = LANES * vector;
            let factors = unit.add(const { weight_bytes(KIND) });
            let eight = |at: usize| _mm_loadl_epi64(factors.add(at * ROWS + row).cast());
            let scale = halves(factors.add(16 * ROWS + 2 * row));
            for number in 0..blocks {
                let of_unit = blocks * part + number;
                for half in 0..halves_of_block {
                    let of_half = eight(halves_of_block * of_unit + half);
                    let of_half = if KIND == SIX_K {
                        _mm256_cvtepi8_epi32(of_half)
                    } else {
                        _mm256_cvtepu8_epi32(of_half)
                    };
                    let scales = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(of_half));
                    for t in 0..M {
                        let total = &mut totals[t][vector];
                        add_scaled(sums[half][number][t], scales, block(t, number), total);
                    }
                }
                if KIND != SIX_K {
                    let minima = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight(8 + of_unit)));
                    let minima = _mm256_mul_ps(halves(factors.add(18 * ROWS + 2 * row)), minima);
                    for t in 0..M {
                        take_minima(minima, block(t, number), &mut totals[t][vector]);
                    }
                }
            }
        }
    }
}
