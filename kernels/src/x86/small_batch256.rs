//! A few activations and blocks of 32 weights of 8, 5 or 4 bits, with AVX2: weights
//! go from memory straight into the multiplication, in the order of their addresses, from a few
//! places in turn. What is computed is what [`super::avx2`] computes, bit for bit.

use std::arch::x86_64::*;
use std::array;
use std::ops::Range;

use crate::data::activation::{BYTES, Layout, ORIGIN};
use crate::data::format::Format;
use crate::data::matmul::{Matmul, Output, Span};
use crate::data::panel::{BLOCK, GROUP, GROUPS, ROWS};
use crate::x86::expand256::{powers_of_two, table};

/// How many bytes ahead weights are prefetched into L1.
const NEAR: usize = 512;
/// How many bytes ahead they are prefetched into L2. Each line is prefetched twice: either alone
/// reaches less memory bandwidth.
const FAR: usize = 2048;

/// Rows of a vector.
const LANES: usize = 8;
/// Vectors of a panel's rows.
const VECTORS: usize = ROWS / LANES;

/// Whether some activations are multiplied here. More take longer than by tiles, for which weights
/// are expanded once.
pub(crate) fn suits(format: Format, tokens: usize) -> bool {
    match format {
        Format::Q8_0 | Format::Q4_0 => (1..=4).contains(&tokens),
        Format::Iq4Nl | Format::MxFp4 => (1..=3).contains(&tokens),
        Format::Q5_0 | Format::Q5_1 => (1..=2).contains(&tokens),
        _ => false,
    }
}

/// Multiplies some of the panels by a few activations, of a format that this [`suits`].
///
/// # Safety
/// The CPU must have the instructions. The buffers must fit the matmul, and no other code may read
/// or write the elements of `out` that belong to the span.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) unsafe fn multiply(matmul: &Matmul<'_>, span: &Span, out: Output<'_>) {
    // SAFETY: as the caller promises.
    unsafe {
        match matmul.format {
            Format::Q8_0 => by_count::<EIGHT>(matmul, span, out),
            Format::Q4_0 => by_count::<FOUR>(matmul, span, out),
            Format::Q5_0 => by_count::<FIVE>(matmul, span, out),
            Format::Q5_1 => by_count::<MINIMA>(matmul, span, out),
            Format::MxFp4 => by_count::<POWERS>(matmul, span, out),
            _ => by_count::<TABLE>(matmul, span, out),
        }
    }
}

/// How weights are stored: in 8 bits, as 4 bits, as 5 bits, as 5 bits with a minimum, as 4-bit
/// indexes into a table, or as such indexes with scales that are powers of two. The first and the
/// indexes alone are multiplied as signed bytes.
const EIGHT: u8 = 0;
const FOUR: u8 = 1;
const FIVE: u8 = 2;
const MINIMA: u8 = 3;
const TABLE: u8 = 4;
const POWERS: u8 = 5;

/// What weights are too large by when they are multiplied as unsigned bytes.
const fn offset(kind: u8) -> u8 {
    match kind {
        FOUR => 8,
        POWERS => 12,
        FIVE => 16,
        _ => 0,
    }
}

/// Groups of columns that have bytes of their own.
const fn groups(kind: u8) -> usize {
    if kind == EIGHT { GROUPS } else { GROUPS / 2 }
}

/// Bytes before the scales: those of groups, and of the fifth bits of all groups.
const fn weight_bytes(kind: u8) -> usize {
    match kind {
        FIVE | MINIMA => (groups(kind) + 1) * GROUP,
        _ => groups(kind) * GROUP,
    }
}

const fn unit_bytes(kind: u8) -> usize {
    weight_bytes(kind)
        + match kind {
            POWERS => ROWS,
            MINIMA => 4 * ROWS,
            _ => 2 * ROWS,
        }
}

/// Chooses the number of activations.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn by_count<const KIND: u8>(matmul: &Matmul<'_>, span: &Span, out: Output<'_>) {
    // SAFETY: as the caller promises.
    unsafe {
        match span.tokens.len() {
            1 => from_places::<KIND, 1>(matmul, span, out),
            2 => from_places::<KIND, 2>(matmul, span, out),
            3 => from_places::<KIND, 3>(matmul, span, out),
            4 => from_places::<KIND, 4>(matmul, span, out),
            tokens => unreachable!("{tokens} activations are not few"),
        }
    }
}

/// Takes the panels from two places in turn: memory gives more from several at once.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn from_places<const KIND: u8, const M: usize>(
    matmul: &Matmul<'_>,
    span: &Span,
    out: Output<'_>,
) {
    let mut left = span.panels.clone();
    let first = span.tokens.start;
    // SAFETY: as the caller promises.
    unsafe {
        several::<KIND, M, 2>(matmul, &mut left, first, out);
        several::<KIND, M, 1>(matmul, &mut left, first, out);
    }
}

/// Multiplies panels from several places at once, the same number from each place, and takes them
/// from those that are left.
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn several<const KIND: u8, const M: usize, const PLACES: usize>(
    matmul: &Matmul<'_>,
    left: &mut Range<usize>,
    token: usize,
    out: Output<'_>,
) {
    let bytes = const { unit_bytes(KIND) };
    let layout = Layout::new(matmul.cols);
    let table = table(matmul.format, const { offset(KIND) });
    let each = left.len() / PLACES;
    let first = left.start;
    left.start += PLACES * each;
    for panel in first..first + each {
        // SAFETY: the panels and the activations are of the matmul, and the results of the span,
        // which the caller promises; any address may be prefetched.
        unsafe {
            let mut units: [*const u8; PLACES] = array::from_fn(|place| {
                let panel = panel + place * each;
                matmul.panels.as_ptr().add(panel * layout.blocks() * bytes)
            });
            let rows: [*const u8; M] = array::from_fn(|t| {
                matmul
                    .activations
                    .as_ptr()
                    .add((token + t) * layout.bytes())
            });
            let mut totals = [[[_mm256_setzero_ps(); VECTORS]; M]; PLACES];
            for block in 0..layout.blocks() {
                for (unit, totals) in units.iter_mut().zip(&mut totals) {
                    for line in 0..bytes.div_ceil(64) {
                        let line = unit.wrapping_add(64 * line);
                        _mm_prefetch::<_MM_HINT_T0>(line.wrapping_add(NEAR).cast());
                        _mm_prefetch::<_MM_HINT_T1>(line.wrapping_add(FAR).cast());
                    }
                    add_block::<KIND, M>(*unit, table, &rows, block * BYTES, totals);
                    *unit = unit.add(bytes);
                }
            }
            for (place, totals) in totals.into_iter().enumerate() {
                for (t, totals) in totals.into_iter().enumerate() {
                    put(matmul, panel + place * each, token + t, totals, out);
                }
            }
        }
    }
}

/// Writes the results of a panel.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn put(
    matmul: &Matmul<'_>,
    panel: usize,
    token: usize,
    totals: [__m256; VECTORS],
    out: Output<'_>,
) {
    let mut results = [0.0_f32; ROWS];
    let left = (matmul.rows - panel * ROWS).min(ROWS);
    // SAFETY: there are as many results as vectors have; only places of results are written.
    unsafe {
        for (vector, totals) in totals.into_iter().enumerate() {
            _mm256_storeu_ps(results.as_mut_ptr().add(LANES * vector), totals);
        }
        out.at(token, panel * ROWS)
            .copy_from_nonoverlapping(results.as_ptr(), left);
    }
}

/// Adds the products of a block, as all kernels do. The activations' blocks are so many bytes
/// behind their beginnings.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_block<const KIND: u8, const M: usize>(
    unit: *const u8,
    table: __m256i,
    rows: &[*const u8; M],
    at: usize,
    totals: &mut [[__m256; VECTORS]; M],
) {
    let origin = ORIGIN.to_bits().cast_signed();
    let low = _mm256_set1_epi8(15);
    let fifth = _mm256_set1_epi8(16);
    let ones = _mm256_set1_epi16(1);
    // SAFETY: as the caller promises.
    unsafe {
        let four = |t: usize, group: usize| {
            _mm256_set1_epi32(rows[t].add(at + 4 * group).cast::<i32>().read_unaligned())
        };
        let start = |t: usize| {
            // Of weights that are 128 too large.
            let start = rows[t].add(at + BLOCK + 4).cast::<i32>().read_unaligned();
            origin + (start - origin) / 128 * const { offset(KIND) as i32 }
        };
        let mut sums: [[__m256i; VECTORS]; M] =
            array::from_fn(|t| [_mm256_set1_epi32(start(t)); VECTORS]);
        // Sums of 16 bits have room for the products of all weights of 4 bits, and of half of the
        // weights of 5 bits and of `MXFP4`.
        let mut pairs = [[[_mm256_setzero_si256(); 2]; VECTORS]; M];
        for group in 0..const { groups(KIND) } {
            for vector in 0..VECTORS {
                let bytes = _mm256_loadu_si256(unit.add(GROUP * group + 32 * vector).cast());
                let high = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), low);
                let mut halves = [_mm256_and_si256(bytes, low), high];
                if KIND == FIVE || KIND == MINIMA {
                    // The bit of a group is as many places up; it belongs at 16.
                    let bits = unit.add(const { groups(KIND) * GROUP } + 32 * vector);
                    let bits = _mm256_loadu_si256(bits.cast());
                    let up = _mm_cvtsi32_si128(4 - group as i32);
                    let down = _mm_cvtsi32_si128(group as i32);
                    let bits = [_mm256_sll_epi16(bits, up), _mm256_srl_epi16(bits, down)];
                    for (half, bits) in halves.iter_mut().zip(bits) {
                        *half = _mm256_or_si256(*half, _mm256_and_si256(bits, fifth));
                    }
                }
                if KIND == TABLE || KIND == POWERS {
                    halves = halves.map(|indexes| _mm256_shuffle_epi8(table, indexes));
                }
                for t in 0..M {
                    let sum = &mut sums[t][vector];
                    let mut add = |weights: __m256i, group: usize| {
                        let products = _mm256_maddubs_epi16(
                            _mm256_abs_epi8(weights),
                            _mm256_sign_epi8(four(t, group), weights),
                        );
                        *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(products, ones));
                    };
                    match KIND {
                        EIGHT => add(bytes, group),
                        TABLE => {
                            for (half, weights) in halves.into_iter().enumerate() {
                                add(weights, group + half * GROUPS / 2);
                            }
                        }
                        _ => {
                            for (half, weights) in halves.into_iter().enumerate() {
                                let four = four(t, group + half * GROUPS / 2);
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
        for vector in 0..VECTORS {
            let factors = unit.add(const { weight_bytes(KIND) });
            let halves = |at: usize| {
                _mm256_cvtph_ps(_mm_loadu_si128(factors.add(at + 2 * LANES * vector).cast()))
            };
            let scales = if KIND == POWERS {
                powers_of_two(_mm_loadl_epi64(factors.add(LANES * vector).cast()))
            } else {
                halves(0)
            };
            let offsets = _mm256_mul_ps(scales, _mm256_set1_ps(-ORIGIN));
            for t in 0..M {
                let mut sum = sums[t][vector];
                if KIND != EIGHT && KIND != TABLE {
                    for pairs in pairs[t][vector] {
                        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
                    }
                }
                let factor = |number: usize| {
                    rows[t]
                        .add(at + BLOCK + 4 * number)
                        .cast::<f32>()
                        .read_unaligned()
                };
                let sum = _mm256_fmadd_ps(_mm256_castsi256_ps(sum), scales, offsets);
                let total = &mut totals[t][vector];
                *total = _mm256_fmadd_ps(sum, _mm256_set1_ps(factor(0)), *total);
                if KIND == MINIMA {
                    *total = _mm256_fnmadd_ps(halves(2 * ROWS), _mm256_set1_ps(factor(4)), *total);
                }
            }
        }
    }
}
