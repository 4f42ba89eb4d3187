//! Blocks of 32 weights of 8 or 4 bits with a scale, with AVX512-VNNI.

use std::arch::asm;
use std::arch::x86_64::*;
use std::array;

use super::Unit;
use crate::data::activation::ORIGIN;
use crate::data::panel::{BLOCK, GROUP, ROWS};
use crate::x86::vector::{Avx512, Vector};

/// Blocks that are stored in some way.
pub(super) struct VnniBlocks<const KIND: u8>;

/// Weights of 8 bits.
pub(super) const EIGHT: u8 = 0;
/// Weights that are 4-bit indexes into a table.
pub(super) const FOUR: u8 = 1;
/// As such indexes, with scales that are powers of two.
pub(super) const POWERS: u8 = 2;

/// Groups of columns that have bytes of their own.
const fn groups(kind: u8) -> usize {
    if kind == EIGHT { 8 } else { 4 }
}

impl<const KIND: u8> Unit for VnniBlocks<KIND> {
    type Vector = Avx512;
    type Totals = [__m512; 2];
    const OFFSET: u8 = 128;
    const BYTES: usize = groups(KIND) * GROUP + if KIND == POWERS { ROWS } else { 2 * ROWS };
    const BLOCKS: usize = 1;
    const PARTS: usize = 1;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn add<const M: usize>(
        unit: *const u8,
        _part: usize,
        table: __m512i,
        (rows, at): (&[*const u8; M], usize),
        totals: &mut [[__m512; 2]; M],
    ) {
        // SAFETY: as the caller promises.
        unsafe {
            let four = |t: usize, group: usize| {
                _mm512_set1_epi32(rows[t].add(at + 4 * group).cast::<i32>().read_unaligned())
            };
            for h in 0..2 {
                // What sums start from is behind the activation's scale.
                let mut sums: [__m512i; M] = array::from_fn(|t| {
                    let start = rows[t].add(at + BLOCK + 4).cast::<i32>();
                    _mm512_set1_epi32(start.read_unaligned())
                });
                for group in 0..const { groups(KIND) } {
                    let bytes = _mm512_loadu_si512(unit.add(GROUP * group + 64 * h).cast());
                    if KIND == EIGHT {
                        let weights = _mm512_xor_si512(bytes, _mm512_set1_epi8(-128));
                        for t in 0..M {
                            sums[t] = _mm512_dpbusd_epi32(sums[t], weights, four(t, group));
                        }
                    } else {
                        let low = _mm512_set1_epi8(15);
                        let first = _mm512_and_si512(bytes, low);
                        let second = _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), low);
                        let first = _mm512_shuffle_epi8(table, first);
                        let second = _mm512_shuffle_epi8(table, second);
                        for t in 0..M {
                            sums[t] = _mm512_dpbusd_epi32(sums[t], first, four(t, group));
                        }
                        for t in 0..M {
                            sums[t] = _mm512_dpbusd_epi32(sums[t], second, four(t, group + 4));
                        }
                    }
                    if M > 1 {
                        pin(&mut sums);
                    }
                }
                let scales = unit.add(const { groups(KIND) * GROUP });
                let scales = if KIND == POWERS {
                    Avx512::powers(scales.add(16 * h))
                } else {
                    _mm512_cvtph_ps(_mm256_loadu_si256(scales.add(32 * h).cast()))
                };
                let offsets = _mm512_mul_ps(scales, _mm512_set1_ps(-ORIGIN));
                for t in 0..M {
                    let scale = rows[t].add(at + BLOCK).cast::<f32>().read_unaligned();
                    let sum = _mm512_fmadd_ps(_mm512_castsi512_ps(sums[t]), scales, offsets);
                    totals[t][h] = _mm512_fmadd_ps(sum, _mm512_set1_ps(scale), totals[t][h]);
                }
            }
        }
    }
}

/// Makes the compiler compute these sums here. Left alone it computes all of one activation's
/// before the next's, each waiting for the one before.
#[inline]
#[target_feature(enable = "avx512f")]
fn pin<const M: usize>(sums: &mut [__m512i; M]) {
    for sum in sums {
        // SAFETY: no instruction at all.
        unsafe {
            asm!(
                "/* {} */",
                inout(zmm_reg) * sum,
                options(nomem, nostack, preserves_flags)
            );
        }
    }
}
