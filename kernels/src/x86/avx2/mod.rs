//! AVX2 and AVX-VNNI: vectors of eight rows.
//!
//! Signed weights of 8 bits, and those of tables, are multiplied as [`words`] with AVX2, all others
//! as [`bytes`]. The sums of a few activations and two vectors of rows stay in registers over a
//! block, so that each of its weights and integers that is read is used several times.

pub(crate) mod bytes;
pub(crate) mod words;

use std::arch::x86_64::*;

use crate::data::activation::ORIGIN;
use crate::data::panel::ROWS;
use crate::x86::strip::{Record, Strip};

/// Activations whose sums are in registers at once, at most.
const SUMS: usize = 4;
/// Number of rows of a vector.
const LANES: usize = 8;
/// Vectors of rows whose sums are in registers at once.
const VECTORS: usize = 2;

/// Sums of the products of a block, for some activations and rows, as the bits of floats that
/// start from [`ORIGIN`].
type Sums<const M: usize> = [[__m256i; VECTORS]; M];

/// Results of a tile, while they grow. Where they go in the end, those of different activations can
/// be so far apart that they take each other's places in the cache.
#[repr(C, align(32))]
struct TileTotals<const TOKENS: usize>([[f32; ROWS]; TOKENS]);

/// Multiplies a strip, tile by tile of `TOKENS` activations at most. `add` adds the products of a
/// record and some activations of a block to totals: those of activations from a number on. It gets
/// how many are left, and says how many it took.
///
/// # Safety
/// The strip's activations and the places of its results must exist.
#[expect(
    clippy::inline_always,
    reason = "in a function of its own it would lack the instructions of the caller"
)]
#[inline(always)]
unsafe fn tiles<const TOKENS: usize, T, W>(
    strip: &Strip<'_, T, W>,
    add: impl Fn(&Record<W>, &T, (usize, usize), &mut [[f32; ROWS]]) -> usize,
) {
    let mut totals = TileTotals([[0.0; ROWS]; TOKENS]);
    for (tile, first) in (0..strip.tokens).step_by(strip.height).enumerate() {
        let tokens = strip.height.min(strip.tokens - first);
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
            } else {
                totals.0[..tokens].fill([0.0; ROWS]);
            }
            for (at, record) in strip.records.iter().enumerate() {
                strip.next.fetch(tile * strip.records.len() + at);
                let block = &*blocks.add(at);
                let mut token = 0;
                while token < tokens {
                    let left = tokens - token;
                    token += add(record, block, (token, left), &mut totals.0[token..]);
                }
            }
            for (token, totals) in totals.0[..tokens].iter().enumerate() {
                out.add(token * strip.stride)
                    .copy_from_nonoverlapping(totals.as_ptr(), ROWS);
            }
        }
    }
}

/// Factors of sums, and amounts to subtract.
struct SumFactors<'a> {
    scales: &'a [f32; ROWS],
    /// Factors of the activations.
    of_activations: &'a [f32],
    /// The minima of the rows, or of both halves of their columns, and what they are multiplied by
    /// for each activation.
    minima: [Option<(&'a [f32; ROWS], &'a [f32])>; 2],
}

/// Adds sums to the totals of the rows from `row`.
///
/// # Safety
/// The CPU must have the instructions; there must be factors and totals for all sums.
#[expect(clippy::inline_always, reason = "as above")]
#[inline(always)]
unsafe fn add_scaled<const M: usize>(
    sums: Sums<M>,
    factors: &SumFactors<'_>,
    row: usize,
    totals: &mut [[f32; ROWS]],
) {
    for vector in 0..VECTORS {
        let row = row + LANES * vector;
        // SAFETY: as the caller promises.
        unsafe {
            let scales = _mm256_loadu_ps(factors.scales.as_ptr().add(row));
            let offsets = _mm256_mul_ps(scales, _mm256_set1_ps(-ORIGIN));
            for t in 0..M {
                let place = totals.as_mut_ptr().add(t).cast::<f32>().add(row);
                let of_activation = |factors: &[f32]| _mm256_broadcast_ss(factors.get_unchecked(t));
                let sum = _mm256_castsi256_ps(sums[t][vector]);
                let sum = _mm256_fmadd_ps(sum, scales, offsets);
                let scale = of_activation(factors.of_activations);
                let mut total = _mm256_fmadd_ps(sum, scale, _mm256_loadu_ps(place));
                // A loop over those that there are would not be unrolled.
                for number in 0..2 {
                    if let Some((minima, of_activations)) = factors.minima[number] {
                        let minima = _mm256_loadu_ps(minima.as_ptr().add(row));
                        total = _mm256_fnmadd_ps(minima, of_activation(of_activations), total);
                    }
                }
                _mm256_storeu_ps(place, total);
            }
        }
    }
}
