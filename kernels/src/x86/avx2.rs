//! AVX2 and AVX-VNNI: vectors of eight rows.
//!
//! AVX-VNNI multiplies unsigned weights and adds by fours. AVX2 adds products by twos in 16 bits,
//! which hold those of a number of groups that depends on how large weights can be, before it
//! widens them: eight groups of 4 bits, four of 5, two of 6. Weights of 8 bits, and those of
//! tables, give their sign to the activation, so that two products of at most 128 x 127 fit.

use std::arch::x86_64::*;

use crate::data::activation::{Factors, ORIGIN};
use crate::data::format::Format;
use crate::data::panel::{BLOCK, ROWS};
use crate::x86::strip::{Record, Strip};

/// Activations of a tile, which the weights of eight rows are multiplied by while they are in
/// registers.
pub(crate) const TOKENS: usize = 16;

/// A block of the activations of a tile.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Block {
    integers: [[u8; BLOCK]; TOKENS],
    /// The factors, as in [`Factors`].
    scales: [f32; TOKENS],
    totals: [f32; TOKENS],
    starts: [[i32; 3]; TOKENS],
}

impl Block {
    pub(crate) const ZERO: Self = Self {
        integers: [[0; BLOCK]; TOKENS],
        scales: [0.0; TOKENS],
        totals: [0.0; TOKENS],
        starts: [[0; 3]; TOKENS],
    };

    /// Puts an activation's integers and factors, of which the corrections are shifted by some
    /// places.
    pub(crate) fn put(
        &mut self,
        token: usize,
        integers: &[u8; BLOCK],
        factors: Factors,
        correction: u32,
    ) {
        let origin = ORIGIN.to_bits().cast_signed();
        self.integers[token] = *integers;
        self.scales[token] = factors.scale;
        self.totals[token] = factors.total;
        self.starts[token] = factors
            .starts
            .map(|start| origin + ((start - origin) >> correction));
    }
}

const PLAIN: u8 = 0;
const MINIMA: u8 = 1;
const HALVES: u8 = 2;

/// How many groups are added in 16 bits: these for AVX-VNNI, which needs none, and for signed
/// weights of 8 bits.
const VNNI: usize = 0;
const SIGNED: usize = 1;

/// Rows of a vector.
const LANES: usize = 8;
/// Groups of a block.
const GROUPS: usize = BLOCK / 4;

/// Results of a tile, while they grow.
#[repr(C, align(32))]
struct Totals([[f32; ROWS]; TOKENS]);

/// Multiplies activations by records with AVX2: signed ones of 8 bits and of tables, unsigned ones
/// of other formats.
///
/// # Safety
/// The CPU must have the instructions; the strip's activations and the places of its results must
/// exist.
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn multiply(format: Format, strip: &Strip<'_, Block>) {
    // SAFETY: as the caller promises.
    unsafe {
        match format {
            Format::Q8_0 | Format::MxFp4 | Format::Iq4Nl | Format::Iq4Xs => {
                tiles::<PLAIN, SIGNED, false>(strip);
            }
            Format::Q4_0 => tiles::<PLAIN, 8, true>(strip),
            Format::Q5_0 => tiles::<PLAIN, 4, true>(strip),
            Format::Q3K => tiles::<HALVES, 4, true>(strip),
            Format::Q4K => tiles::<MINIMA, 8, false>(strip),
            Format::Q5_1 | Format::Q5K => tiles::<MINIMA, 4, false>(strip),
            Format::Q6K => tiles::<HALVES, 2, true>(strip),
            Format::F16 | Format::Bf16 => unreachable!("{format:?} has no blocks"),
        }
    }
}

/// Multiplies activations by records of unsigned weights with AVX-VNNI.
///
/// # Safety
/// As [`multiply`].
#[target_feature(enable = "avx2,fma,avxvnni")]
pub(crate) unsafe fn multiply_vnni(format: Format, strip: &Strip<'_, Block>) {
    // SAFETY: as the caller promises.
    unsafe {
        match format {
            Format::Q8_0
            | Format::Q4_0
            | Format::Q5_0
            | Format::MxFp4
            | Format::Iq4Nl
            | Format::Iq4Xs => tiles::<PLAIN, VNNI, true>(strip),
            Format::Q5_1 | Format::Q4K | Format::Q5K => tiles::<MINIMA, VNNI, false>(strip),
            Format::Q3K | Format::Q6K => tiles::<HALVES, VNNI, true>(strip),
            Format::F16 | Format::Bf16 => unreachable!("{format:?} has no blocks"),
        }
    }
}

/// Sums start from what the activations say if `START` says so, and otherwise from nothing but
/// [`ORIGIN`].
#[expect(
    clippy::inline_always,
    reason = "in a function of its own it would lack the instructions of the caller"
)]
#[inline(always)]
unsafe fn tiles<const SHAPE: u8, const DEPTH: usize, const START: bool>(strip: &Strip<'_, Block>) {
    for (tile, first) in (0..strip.tokens).step_by(strip.height).enumerate() {
        let tokens = strip.height.min(strip.tokens - first);
        let mut totals = Totals([[0.0; ROWS]; TOKENS]);
        // SAFETY: the tile and its results are of the strip, which the caller promises to exist.
        unsafe {
            let blocks = strip.tiles.first.add(tile * strip.tiles.step);
            let out = strip.out.add(first * strip.stride);
            if strip.resume {
                for (token, totals) in totals.0[..tokens].iter_mut().enumerate() {
                    totals
                        .as_mut_ptr()
                        .copy_from_nonoverlapping(out.add(token * strip.stride), ROWS);
                }
            }
            for (at, record) in strip.records.iter().enumerate() {
                strip.next.fetch(tile * strip.records.len() + at);
                record_times::<SHAPE, DEPTH, START>(
                    record,
                    &*blocks.add(at),
                    &mut totals.0[..tokens],
                );
            }
            for (token, totals) in totals.0[..tokens].iter().enumerate() {
                out.add(token * strip.stride)
                    .copy_from_nonoverlapping(totals.as_ptr(), ROWS);
            }
        }
    }
}

/// Adds the products of a record and the block of activations that belongs to it.
#[expect(clippy::inline_always, reason = "as above")]
#[inline(always)]
unsafe fn record_times<const SHAPE: u8, const DEPTH: usize, const START: bool>(
    record: &Record,
    block: &Block,
    totals: &mut [[f32; ROWS]],
) {
    for row in (0..ROWS).step_by(LANES) {
        // SAFETY: the CPU has the instructions; records, blocks and totals have all that is read
        // and written, at multiples of a vector.
        unsafe {
            let weights = record.weights.as_ptr().add(4 * row);
            let weights: [__m256i; GROUPS] = std::array::from_fn(|group| {
                _mm256_load_si256(weights.add(4 * ROWS * group).cast())
            });
            let (first, second) = weights.split_at(GROUPS / 2);
            let scales = _mm256_load_ps(record.scales.as_ptr().add(row));
            let others = _mm256_load_ps(record.others.as_ptr().add(row));
            for (token, totals) in totals.iter_mut().enumerate() {
                let integers = block.integers[token].as_ptr();
                let totals = totals.as_mut_ptr().add(row);
                let mut total = _mm256_load_ps(totals);
                let scale = _mm256_set1_ps(block.scales[token]);
                let mut add = |sum, scales| {
                    let offsets = _mm256_mul_ps(scales, _mm256_set1_ps(-ORIGIN));
                    let sum = _mm256_fmadd_ps(_mm256_castsi256_ps(sum), scales, offsets);
                    total = _mm256_fmadd_ps(sum, scale, total);
                };
                let starts = block.starts[token].map(|start| {
                    if START {
                        start
                    } else {
                        ORIGIN.to_bits().cast_signed()
                    }
                });
                if SHAPE == HALVES {
                    add(sum::<DEPTH>(first, integers, starts[1]), scales);
                    add(
                        sum::<DEPTH>(second, integers.add(BLOCK / 2), starts[2]),
                        others,
                    );
                } else {
                    add(sum::<DEPTH>(&weights, integers, starts[0]), scales);
                }
                if SHAPE == MINIMA {
                    total = _mm256_fnmadd_ps(others, _mm256_set1_ps(block.totals[token]), total);
                }
                _mm256_store_ps(totals, total);
            }
        }
    }
}

/// The sums of eight rows' products of some groups, as the bits of floats.
#[expect(clippy::inline_always, reason = "as above")]
#[inline(always)]
unsafe fn sum<const DEPTH: usize>(weights: &[__m256i], integers: *const u8, start: i32) -> __m256i {
    // SAFETY: the CPU has the instructions, and there are integers for each group.
    unsafe {
        let four = |group: usize| {
            _mm256_set1_epi32(integers.add(4 * group).cast::<i32>().read_unaligned())
        };
        let mut sum = _mm256_set1_epi32(start);
        if DEPTH == VNNI {
            for (group, weights) in weights.iter().enumerate() {
                sum = _mm256_dpbusd_avx_epi32(sum, *weights, four(group));
            }
            return sum;
        }
        for (chunk, weights) in weights.chunks(DEPTH).enumerate() {
            let mut pairs = _mm256_setzero_si256();
            for (group, weights) in weights.iter().enumerate() {
                let four = four(chunk * DEPTH + group);
                let products = if DEPTH == SIGNED {
                    _mm256_maddubs_epi16(
                        _mm256_abs_epi8(*weights),
                        _mm256_sign_epi8(four, *weights),
                    )
                } else {
                    _mm256_maddubs_epi16(*weights, four)
                };
                pairs = _mm256_add_epi16(pairs, products);
            }
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
        }
        sum
    }
}
