//! Matmuls of 16-bit floating point with the vector instructions of x86: weights are converted to
//! 32 bits when they are loaded from the panel.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use crate::data::float::{COLUMN, stride};
use crate::data::format::Format;
use crate::data::matmul::{Matmul, Output, Span};
use crate::data::panel::ROWS;
use crate::x86::Instructions;
use crate::x86::counts::with_count;
use crate::x86::vector::{Avx2, Avx512, Vector};

/// Activations that are multiplied by one panel after the other.
const TOKENS: usize = 128;
/// Columns that are multiplied before more: their activations stay in L2, and those of a tile in
/// L1.
const COLUMNS: usize = 512;
/// Distance in bytes at which weights are prefetched.
const AHEAD: usize = 2048;
/// Maximum number of activations of a tile.
const MOST: usize = 12;

/// Some columns of a panel, and the activations of a tile.
#[derive(Clone, Copy)]
struct FloatTile {
    weights: *const u8,
    columns: usize,
    /// The first activation's element for the first column, and the distance to the next
    /// activation's, in elements.
    numbers: *const u8,
    stride: usize,
    /// Results of the first activation, one for each row of a panel. `step` is the number of
    /// elements to the results of the next activation.
    out: *mut f32,
    step: usize,
    /// True if results are added to the present ones.
    resume: bool,
}

impl FloatTile {
    /// An element of one of the activations.
    #[inline]
    unsafe fn number(&self, activation: usize, column: usize) -> f32 {
        let at = 4 * (activation * self.stride + column);
        // SAFETY: the caller promises that there is one.
        unsafe { self.numbers.add(at).cast::<f32>().read_unaligned() }
    }
}

/// Multiplies some of the panels by some of the activations.
///
/// # Safety
/// The CPU must have the instructions. The buffers must fit the matmul, and no other code may read
/// or write the elements of `out` that belong to the span.
pub(crate) unsafe fn multiply(
    instructions: Instructions,
    matmul: &Matmul<'_>,
    span: &Span,
    out: Output<'_>,
) {
    let brain = matmul.format == Format::Bf16;
    let (cols, stride) = (matmul.cols, stride(matmul.cols));
    let wide = matches!(instructions, Instructions::Amx | Instructions::Avx512);
    let height = if wide { MOST } else { MOST / 2 };
    for first in span.tokens.clone().step_by(TOKENS) {
        let tokens = TOKENS.min(span.tokens.end - first);
        // Of few activations, no part has to stay anywhere.
        let at_once = if tokens > height { COLUMNS } else { cols };
        for column in (0..cols).step_by(at_once) {
            for panel in span.panels.clone() {
                let rows = ROWS.min(matmul.rows - panel * ROWS);
                let height = tokens.div_ceil(tokens.div_ceil(height));
                for token in (first..first + tokens).step_by(height) {
                    let count = height.min(first + tokens - token);
                    let mut rest = [0f32; ROWS * MOST];
                    // SAFETY: the panel, the activations and the results are of the matmul and the
                    // span, which the caller promises; where a panel lacks rows, its results have
                    // their places in `rest`.
                    unsafe {
                        let place = out.at(token, panel * ROWS);
                        let mut tile = FloatTile {
                            weights: matmul.panels.as_ptr().add((panel * cols + column) * COLUMN),
                            columns: at_once.min(cols - column),
                            numbers: matmul
                                .activations
                                .as_ptr()
                                .add(4 * (token * stride + column)),
                            stride,
                            out: place,
                            step: out.stride,
                            resume: column > 0,
                        };
                        if rows < ROWS {
                            tile.out = rest.as_mut_ptr();
                            tile.step = ROWS;
                            for row in 0..count * usize::from(tile.resume) {
                                tile.out
                                    .add(row * ROWS)
                                    .copy_from_nonoverlapping(place.add(row * out.stride), rows);
                            }
                        }
                        if wide {
                            with_count!(count, M in [1 2 3 4 5 6 7 8 9 10 11 12], if brain {
                                rows512::<true, M>(&tile);
                            } else {
                                rows512::<false, M>(&tile);
                            });
                        } else {
                            for row in [0, ROWS / 2] {
                                with_count!(count, M in [1 2 3 4 5 6], if brain {
                                    rows256::<true, M>(&tile, row);
                                } else {
                                    rows256::<false, M>(&tile, row);
                                });
                            }
                        }
                        if rows < ROWS {
                            for row in 0..count {
                                place
                                    .add(row * out.stride)
                                    .copy_from_nonoverlapping(tile.out.add(row * ROWS), rows);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// All rows of a panel, sixteen in a vector.
#[target_feature(enable = "avx512f")]
unsafe fn rows512<const BRAIN: bool, const M: usize>(tile: &FloatTile) {
    // SAFETY: as the caller promises.
    unsafe { two_vectors::<Avx512, BRAIN, M>(tile, 0) };
}

/// Half of a panel's rows, from `row` on, eight in a vector.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn rows256<const BRAIN: bool, const M: usize>(tile: &FloatTile, row: usize) {
    // SAFETY: as the caller promises.
    unsafe { two_vectors::<Avx2, BRAIN, M>(tile, row) };
}

/// Two vectors of rows from `row` on.
#[expect(
    clippy::inline_always,
    reason = "what is not inlined lacks the instructions of its caller"
)]
#[inline(always)]
unsafe fn two_vectors<V: Vector, const BRAIN: bool, const M: usize>(tile: &FloatTile, row: usize) {
    // SAFETY: as the caller promises; any address may be prefetched.
    unsafe {
        let out = tile.out.add(row);
        let mut totals = [[V::splat_float(0.0); 2]; M];
        if tile.resume {
            for t in 0..M {
                for h in 0..2 {
                    totals[t][h] = V::load_floats(out.add(t * tile.step + h * V::LANES));
                }
            }
        }
        for column in 0..tile.columns {
            let weights = tile.weights.add(column * COLUMN + 2 * row);
            _mm_prefetch::<_MM_HINT_T0>(weights.wrapping_add(AHEAD).cast());
            let mut vectors = [V::splat_float(0.0); 2];
            for h in 0..2 {
                let words = V::load_words(weights.add(2 * h * V::LANES).cast());
                vectors[h] = if BRAIN {
                    V::brain_floats(words)
                } else {
                    V::half_floats(words)
                };
            }
            for t in 0..M {
                let number = V::splat_float(tile.number(t, column));
                for h in 0..2 {
                    totals[t][h] = V::multiply_add(vectors[h], number, totals[t][h]);
                }
            }
        }
        for t in 0..M {
            for h in 0..2 {
                V::store_floats(out.add(t * tile.step + h * V::LANES), totals[t][h]);
            }
        }
    }
}
