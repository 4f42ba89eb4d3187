//! Matmuls of 16-bit floating point with the vector instructions of x86: weights are converted to
//! 32 bits when they are loaded from the panel.

use std::arch::x86_64::*;

use crate::data::float::{COLUMN, stride};
use crate::data::format::Format;
use crate::data::matmul::{Matmul, Output, Span};
use crate::data::panel::ROWS;
use crate::x86::Instructions;

/// Activations that are multiplied by one panel after the other.
const TOKENS: usize = 128;
/// Columns that are multiplied before more: their activations stay in L2, and those of a tile in
/// L1.
const COLUMNS: usize = 512;
/// How many bytes ahead weights are prefetched.
const AHEAD: usize = 2048;
/// Most activations of a tile.
const MOST: usize = 12;

/// Some columns of a panel, and the activations of a tile.
#[derive(Clone, Copy)]
struct Tile {
    weights: *const u8,
    columns: usize,
    /// The first activation's element for the first column, and the distance to the next
    /// activation's, in elements.
    numbers: *const u8,
    stride: usize,
    /// As many results of the first activation as a panel has rows, and the distance to the next
    /// activation's, in elements.
    out: *mut f32,
    step: usize,
    /// Whether to add to what is there.
    resume: bool,
}

impl Tile {
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
                        let mut tile = Tile {
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
                        match (wide, brain) {
                            (true, false) => tile512::<false>(&tile, count),
                            (true, true) => tile512::<true>(&tile, count),
                            (false, false) => tile256::<false>(&tile, count),
                            (false, true) => tile256::<true>(&tile, count),
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

#[target_feature(enable = "avx512f")]
unsafe fn tile512<const BRAIN: bool>(tile: &Tile, tokens: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        match tokens {
            1 => rows32::<BRAIN, 1>(tile),
            2 => rows32::<BRAIN, 2>(tile),
            3 => rows32::<BRAIN, 3>(tile),
            4 => rows32::<BRAIN, 4>(tile),
            5 => rows32::<BRAIN, 5>(tile),
            6 => rows32::<BRAIN, 6>(tile),
            7 => rows32::<BRAIN, 7>(tile),
            8 => rows32::<BRAIN, 8>(tile),
            9 => rows32::<BRAIN, 9>(tile),
            10 => rows32::<BRAIN, 10>(tile),
            11 => rows32::<BRAIN, 11>(tile),
            _ => rows32::<BRAIN, 12>(tile),
        }
    }
}

/// All rows of a panel, sixteen in a vector.
#[target_feature(enable = "avx512f")]
unsafe fn rows32<const BRAIN: bool, const M: usize>(tile: &Tile) {
    let widen = |bytes: __m256i| {
        if BRAIN {
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(bytes)))
        } else {
            _mm512_cvtph_ps(bytes)
        }
    };
    // SAFETY: as the caller promises; any address may be prefetched.
    unsafe {
        let mut totals = [[_mm512_setzero_ps(); 2]; M];
        if tile.resume {
            for t in 0..M {
                for h in 0..2 {
                    totals[t][h] = _mm512_loadu_ps(tile.out.add(t * tile.step + 16 * h));
                }
            }
        }
        for column in 0..tile.columns {
            let weights = tile.weights.add(column * COLUMN);
            _mm_prefetch::<_MM_HINT_T0>(weights.wrapping_add(AHEAD).cast());
            let halves = [
                widen(_mm256_loadu_si256(weights.cast())),
                widen(_mm256_loadu_si256(weights.add(COLUMN / 2).cast())),
            ];
            for t in 0..M {
                let number = _mm512_set1_ps(tile.number(t, column));
                for h in 0..2 {
                    totals[t][h] = _mm512_fmadd_ps(halves[h], number, totals[t][h]);
                }
            }
        }
        for t in 0..M {
            for h in 0..2 {
                _mm512_storeu_ps(tile.out.add(t * tile.step + 16 * h), totals[t][h]);
            }
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn tile256<const BRAIN: bool>(tile: &Tile, tokens: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        for half in 0..2 {
            match tokens {
                1 => rows16::<BRAIN, 1>(tile, half),
                2 => rows16::<BRAIN, 2>(tile, half),
                3 => rows16::<BRAIN, 3>(tile, half),
                4 => rows16::<BRAIN, 4>(tile, half),
                5 => rows16::<BRAIN, 5>(tile, half),
                _ => rows16::<BRAIN, 6>(tile, half),
            }
        }
    }
}

/// One half of a panel's rows, eight in a vector.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn rows16<const BRAIN: bool, const M: usize>(tile: &Tile, half: usize) {
    let widen = |bytes: __m128i| {
        if BRAIN {
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(bytes)))
        } else {
            _mm256_cvtph_ps(bytes)
        }
    };
    // SAFETY: as the caller promises; any address may be prefetched.
    unsafe {
        let out = tile.out.add(half * ROWS / 2);
        let mut totals = [[_mm256_setzero_ps(); 2]; M];
        if tile.resume {
            for t in 0..M {
                for h in 0..2 {
                    totals[t][h] = _mm256_loadu_ps(out.add(t * tile.step + 8 * h));
                }
            }
        }
        for column in 0..tile.columns {
            let weights = tile.weights.add(column * COLUMN + half * COLUMN / 2);
            _mm_prefetch::<_MM_HINT_T0>(weights.wrapping_add(AHEAD).cast());
            let eights = [
                widen(_mm_loadu_si128(weights.cast())),
                widen(_mm_loadu_si128(weights.add(COLUMN / 4).cast())),
            ];
            for t in 0..M {
                let number = _mm256_set1_ps(tile.number(t, column));
                for h in 0..2 {
                    totals[t][h] = _mm256_fmadd_ps(eights[h], number, totals[t][h]);
                }
            }
        }
        for t in 0..M {
            for h in 0..2 {
                _mm256_storeu_ps(out.add(t * tile.step + 8 * h), totals[t][h]);
            }
        }
    }
}
