//! AVX512-VNNI: one instruction multiplies 64 unsigned weights by 64 signed integers and adds them by fours.

use std::arch::x86_64::*;

use crate::activation::Factors;
use crate::panel::BLOCK;
use crate::x86::blocking::Strip;
use crate::x86::expand::Shape;

/// Activations of a tile: each takes two vectors of 16 rows for the sums of a block and two for its results, of 32 registers.
const TOKENS: usize = 6;

const PLAIN: u8 = 0;
const MINIMA: u8 = 1;
const HALVES: u8 = 2;

/// Multiplies activations by records whose weights are 128 too large.
///
/// # Safety
/// The CPU must have the instructions; the strip's activations and totals must exist.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(crate) unsafe fn multiply(strip: &Strip<'_>) {
    let mut first = 0;
    while first < strip.tokens {
        let left = strip.tokens - first;
        let tokens = left.div_ceil(left.div_ceil(TOKENS));
        // SAFETY: as the caller promises, and these activations are of the strip.
        unsafe {
            match strip.shape {
                Shape::Plain => tile_of::<PLAIN>(strip, first, tokens),
                Shape::Minima => tile_of::<MINIMA>(strip, first, tokens),
                Shape::Halves => tile_of::<HALVES>(strip, first, tokens),
            }
        }
        first += tokens;
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn tile_of<const SHAPE: u8>(strip: &Strip<'_>, first: usize, tokens: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        match tokens {
            1 => tile::<SHAPE, 1>(strip, first),
            2 => tile::<SHAPE, 2>(strip, first),
            3 => tile::<SHAPE, 3>(strip, first),
            4 => tile::<SHAPE, 4>(strip, first),
            5 => tile::<SHAPE, 5>(strip, first),
            _ => tile::<SHAPE, 6>(strip, first),
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn tile<const SHAPE: u8, const M: usize>(strip: &Strip<'_>, first: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        let out = strip.totals.add(first).cast::<f32>();
        let mut totals: [[__m512; 2]; M] = [[_mm512_setzero_ps(); 2]; M];
        for t in 0..M {
            for h in 0..2 {
                totals[t][h] = _mm512_loadu_ps(out.add(32 * t + 16 * h));
            }
        }
        let mut integers: [*const u8; M] = [strip.integers; M];
        let mut factors: [*const u8; M] = [strip.factors; M];
        for t in 0..M {
            integers[t] = strip.integers.add((first + t) * strip.step);
            factors[t] = strip.factors.add((first + t) * strip.step);
        }
        for record in strip.records {
            let weights = record.weights.as_ptr();
            let mut sums = [[_mm512_setzero_si512(); 2]; M];
            for half in 0..2 {
                if half == 0 || SHAPE == HALVES {
                    for t in 0..M {
                        let corrections = factors[t].add(4).cast::<i32>();
                        let mut start = corrections.add(half).read_unaligned();
                        if SHAPE == HALVES && half == 0 {
                            start -= corrections.add(1).read_unaligned();
                        }
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
                            integers[t].add(4 * group).cast::<i32>().read_unaligned(),
                        );
                        for h in 0..2 {
                            sums[t][h] = _mm512_dpbusd_epi32(sums[t][h], weights[h], four);
                        }
                    }
                }
                if half == 1 || SHAPE == HALVES {
                    let scales = if SHAPE == HALVES && half == 1 {
                        record.others.as_ptr()
                    } else {
                        record.scales.as_ptr()
                    };
                    let scales = [_mm512_load_ps(scales), _mm512_load_ps(scales.add(16))];
                    for t in 0..M {
                        let scale = _mm512_set1_ps(factors[t].cast::<f32>().read_unaligned());
                        for h in 0..2 {
                            let sum = _mm512_cvtepi32_ps(sums[t][h]);
                            totals[t][h] =
                                _mm512_fmadd_ps(sum, _mm512_mul_ps(scales[h], scale), totals[t][h]);
                        }
                    }
                }
            }
            if SHAPE == MINIMA {
                let minima = [
                    _mm512_load_ps(record.others.as_ptr()),
                    _mm512_load_ps(record.others.as_ptr().add(16)),
                ];
                for t in 0..M {
                    let total = _mm512_set1_ps(factors[t].add(12).cast::<f32>().read_unaligned());
                    for h in 0..2 {
                        totals[t][h] = _mm512_fnmadd_ps(minima[h], total, totals[t][h]);
                    }
                }
            }
            for t in 0..M {
                integers[t] = integers[t].add(BLOCK);
                factors[t] = factors[t].add(size_of::<Factors>());
            }
        }
        for t in 0..M {
            for h in 0..2 {
                _mm512_storeu_ps(out.add(32 * t + 16 * h), totals[t][h]);
            }
        }
    }
}
