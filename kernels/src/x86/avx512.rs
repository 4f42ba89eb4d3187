//! AVX512-VNNI: one instruction multiplies 64 unsigned weights by 64 signed integers and adds them
//! by fours.

use std::arch::asm;
use std::arch::x86_64::*;

use crate::data::activation::{BYTES, ORIGIN};
use crate::data::panel::BLOCK;
use crate::x86::counts::with_count;
use crate::x86::expand::Shape;
use crate::x86::strip::Strip;

/// Activations of a tile: each takes two vectors of 16 rows for the sums of a block and two for its
/// results, of 32 registers.
pub(crate) const TOKENS: usize = 7;

const PLAIN: u8 = 0;
const MINIMA: u8 = 1;
const HALVES: u8 = 2;
const MINIMA_OF_HALVES: u8 = 3;

/// Multiplies activations by records whose weights are 128 too large, or which have minima and no
/// weight below zero.
///
/// # Safety
/// The CPU must have the instructions; the strip's activations and the places of its results must
/// exist.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(crate) unsafe fn multiply(strip: &Strip<'_, [u8; BYTES]>) {
    for (tile, first) in (0..strip.tokens).step_by(strip.height).enumerate() {
        let tokens = strip.height.min(strip.tokens - first);
        // SAFETY: as the caller promises, and the tile and its results are of the strip.
        unsafe {
            let blocks = strip.tiles.first.add(tile * strip.tiles.step);
            let out = strip.out.add(first * strip.stride);
            match strip.shape {
                Shape::Plain => tile_of::<PLAIN>(strip, tile, blocks, out, tokens),
                Shape::Minima => tile_of::<MINIMA>(strip, tile, blocks, out, tokens),
                Shape::MinimaOfHalves => {
                    tile_of::<MINIMA_OF_HALVES>(strip, tile, blocks, out, tokens);
                }
                Shape::Halves => tile_of::<HALVES>(strip, tile, blocks, out, tokens),
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn tile_of<const SHAPE: u8>(
    strip: &Strip<'_, [u8; BYTES]>,
    index: usize,
    blocks: *const [u8; BYTES],
    out: *mut f32,
    tokens: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        with_count!(tokens, M in [1 2 3 4 5 6 7], tile::<SHAPE, M>(strip, index, blocks, out));
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn tile<const SHAPE: u8, const M: usize>(
    strip: &Strip<'_, [u8; BYTES]>,
    index: usize,
    blocks: *const [u8; BYTES],
    out: *mut f32,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut totals: [[__m512; 2]; M] = [[_mm512_setzero_ps(); 2]; M];
        for t in 0..M {
            let place = out.add(t * strip.stride);
            for h in 0..2 {
                if strip.resume {
                    totals[t][h] = _mm512_loadu_ps(place.add(16 * h));
                } else {
                    // Results take long to go where no cache has the place.
                    _mm_prefetch::<_MM_HINT_ET0>(place.add(16 * h).cast());
                }
            }
        }
        let room = strip.tiles.step / strip.height;
        let rows: [*const u8; M] = std::array::from_fn(|t| blocks.add(t * room).cast());
        let mut fetch = strip.next.from(index * strip.records.len());
        for (at, record) in strip.records.iter().enumerate() {
            fetch.next();
            // The integers of an activation's block, and its factors: a scale, three starts and a
            // total.
            let integers = |t: usize| rows[t].add(at * BYTES);
            let factor = |t: usize, number: usize| integers(t).add(BLOCK + 4 * number);
            let weights = record.weights.as_ptr();
            let mut sums = [[_mm512_setzero_si512(); 2]; M];
            for half in 0..2 {
                if half == 0 || SHAPE == HALVES {
                    for t in 0..M {
                        let start = |number| factor(t, number).cast::<i32>().read_unaligned();
                        let start = match SHAPE {
                            PLAIN => start(1),
                            HALVES => start(2 + half),
                            _ => ORIGIN.to_bits().cast_signed(),
                        };
                        sums[t] = [_mm512_set1_epi32(start); 2];
                    }
                }
                for group in 4 * half..4 * half + 4 {
                    let weights = [
                        _mm512_load_si512(weights.add(128 * group).cast()),
                        _mm512_load_si512(weights.add(128 * group + 64).cast()),
                    ];
                    for t in 0..M {
                        let four = _mm512_set1_epi32(
                            integers(t).add(4 * group).cast::<i32>().read_unaligned(),
                        );
                        for h in 0..2 {
                            sums[t][h] = _mm512_dpbusd_epi32(sums[t][h], weights[h], four);
                        }
                        pin(&mut sums[t]);
                    }
                }
                if half == 1 || SHAPE == HALVES {
                    let scales = if SHAPE == HALVES && half == 1 {
                        record.others.as_ptr()
                    } else {
                        record.scales.as_ptr()
                    };
                    for h in 0..2 {
                        let scales = _mm512_load_ps(scales.add(16 * h));
                        let offsets = _mm512_mul_ps(scales, _mm512_set1_ps(-ORIGIN));
                        for t in 0..M {
                            let scale = _mm512_set1_ps(factor(t, 0).cast::<f32>().read_unaligned());
                            let sum = _mm512_castsi512_ps(sums[t][h]);
                            let sum = _mm512_fmadd_ps(sum, scales, offsets);
                            add_matmul(&mut totals[t][h], sum, scale);
                        }
                    }
                }
            }
            for half in 0..2 {
                let minima = match (SHAPE, half) {
                    (MINIMA | MINIMA_OF_HALVES, 0) => &record.others,
                    (MINIMA_OF_HALVES, _) => &record.second_minima,
                    _ => continue,
                };
                let minima = [
                    _mm512_load_ps(minima.as_ptr()),
                    _mm512_load_ps(minima.as_ptr().add(16)),
                ];
                for t in 0..M {
                    let number = |number| factor(t, number).cast::<f32>().read_unaligned();
                    let total = if SHAPE == MINIMA {
                        number(4)
                    } else {
                        // The start of a half is less than `ORIGIN` by 128 times its sum.
                        number(0) * ((ORIGIN - number(2 + half)) / 128.0)
                    };
                    let total = _mm512_set1_ps(total);
                    for h in 0..2 {
                        totals[t][h] = _mm512_fnmadd_ps(minima[h], total, totals[t][h]);
                    }
                }
            }
        }
        for t in 0..M {
            for h in 0..2 {
                _mm512_storeu_ps(out.add(t * strip.stride + 16 * h), totals[t][h]);
            }
        }
    }
}

/// Adds products to a total, which stays in its register: the compiler would take that of a factor
/// and copy it back.
#[inline]
#[target_feature(enable = "avx512f")]
fn add_matmul(total: &mut __m512, sum: __m512, scale: __m512) {
    // SAFETY: one instruction on registers.
    unsafe {
        asm!(
            "vfmadd231ps {}, {}, {}",
            inout(zmm_reg) *total,
            in(zmm_reg) sum,
            in(zmm_reg) scale,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
}

/// Makes the compiler compute these sums here. Left alone it computes all of one activation's
/// before the next's, each waiting for the one before.
#[inline]
#[target_feature(enable = "avx512f")]
fn pin([first, second]: &mut [__m512i; 2]) {
    // SAFETY: no instruction at all.
    unsafe {
        asm!(
            "/* {} {} */",
            inout(zmm_reg) * first,
            inout(zmm_reg) * second,
            options(nomem, nostack, preserves_flags)
        );
    }
}
