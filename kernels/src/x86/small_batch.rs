//! A few activations and blocks of 32 weights of 8 or 4 bits with a scale: weights go from memory straight into
//! the multiplication, in the order of their addresses, from a few places in turn.

use std::arch::asm;
use std::arch::x86_64::*;
use std::array;
use std::ops::Range;

use crate::data::activation::{BYTES, Layout, ORIGIN};
use crate::data::format::Format;
use crate::data::matmul::{Matmul, Output, Span};
use crate::data::panel::{BLOCK, GROUP, ROWS};
use crate::x86::expand::table;
use crate::x86::vector::{Avx512, Vector};

/// How many bytes ahead weights are prefetched into L1.
const NEAR: usize = 512;
/// How many bytes ahead they are prefetched into L2. Each line is prefetched twice: either alone
/// reaches less memory bandwidth.
const FAR: usize = 2048;

/// Whether some activations are multiplied here. More take longer than by tiles, for which weights
/// are expanded once.
pub(crate) fn suits(format: Format, tokens: usize) -> bool {
    match format {
        Format::Q8_0 => (1..=12).contains(&tokens),
        Format::Q4_0 | Format::Iq4Nl | Format::MxFp4 => (1..=8).contains(&tokens),
        _ => false,
    }
}

/// Multiplies some of the panels by a few activations, of a format that this [`suits`].
///
/// # Safety
/// The CPU must have the instructions. The buffers must fit the matmul, and no other code may read
/// or write the elements of `out` that belong to the span.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(crate) unsafe fn multiply(matmul: &Matmul<'_>, span: &Span, out: Output<'_>) {
    // SAFETY: as the caller promises.
    unsafe {
        match matmul.format {
            Format::Q8_0 => by_kind::<EIGHT>(matmul, span, out),
            Format::MxFp4 => by_kind::<POWERS>(matmul, span, out),
            _ => by_kind::<FOUR>(matmul, span, out),
        }
    }
}

/// How weights are stored: in 8 bits, as 4-bit indexes into a table, or as such indexes with
/// scales that are powers of two.
const EIGHT: u8 = 0;
const FOUR: u8 = 1;
const POWERS: u8 = 2;

/// Groups of columns that have bytes of their own.
const fn groups(kind: u8) -> usize {
    if kind == EIGHT { 8 } else { 4 }
}

const fn unit_bytes(kind: u8) -> usize {
    groups(kind) * GROUP + if kind == POWERS { ROWS } else { 2 * ROWS }
}

/// Chooses how many places weights are read from in turn: memory gives more from several at once.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn by_kind<const KIND: u8>(matmul: &Matmul<'_>, span: &Span, out: Output<'_>) {
    let mut left = span.panels.clone();
    let first = span.tokens.start;
    // SAFETY: as the caller promises.
    unsafe {
        match span.tokens.len() {
            1 => {
                several::<KIND, 1, 4>(matmul, &mut left, first, out);
                two_places::<KIND, 1>(matmul, left, first, out);
            }
            2 => two_places::<KIND, 2>(matmul, left, first, out),
            3 => two_places::<KIND, 3>(matmul, left, first, out),
            4 => two_places::<KIND, 4>(matmul, left, first, out),
            5 => two_places::<KIND, 5>(matmul, left, first, out),
            6 => two_places::<KIND, 6>(matmul, left, first, out),
            7 => two_places::<KIND, 7>(matmul, left, first, out),
            8 => two_places::<KIND, 8>(matmul, left, first, out),
            9 => two_places::<KIND, 9>(matmul, left, first, out),
            10 => two_places::<KIND, 10>(matmul, left, first, out),
            11 => two_places::<KIND, 11>(matmul, left, first, out),
            12 => two_places::<KIND, 12>(matmul, left, first, out),
            tokens => unreachable!("{tokens} activations are not few"),
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn two_places<const KIND: u8, const M: usize>(
    matmul: &Matmul<'_>,
    mut left: Range<usize>,
    first: usize,
    out: Output<'_>,
) {
    // SAFETY: as the caller promises.
    unsafe {
        several::<KIND, M, 2>(matmul, &mut left, first, out);
        several::<KIND, M, 1>(matmul, &mut left, first, out);
    }
}

/// Multiplies panels from several places at once, the same number from each place, and takes them
/// from those that are left.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn several<const KIND: u8, const M: usize, const PLACES: usize>(
    matmul: &Matmul<'_>,
    left: &mut Range<usize>,
    token: usize,
    out: Output<'_>,
) {
    let bytes = const { unit_bytes(KIND) };
    let layout = Layout::new(matmul.cols);
    // 128 more than the weights.
    // SAFETY: the CPU has the instructions.
    let table = unsafe { table::<Avx512>(matmul.format, 128) };
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
            let row = |t: usize| {
                matmul
                    .activations
                    .as_ptr()
                    .add((token + t) * layout.bytes())
            };
            let rows: [*const u8; M] = array::from_fn(row);
            let mut totals = [[[_mm512_setzero_ps(); 2]; M]; PLACES];
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
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn put(
    matmul: &Matmul<'_>,
    panel: usize,
    token: usize,
    totals: [__m512; 2],
    out: Output<'_>,
) {
    let left = matmul.rows - panel * ROWS;
    // SAFETY: as the caller promises; only places of results are written.
    unsafe {
        let place = out.at(token, panel * ROWS);
        for (h, totals) in totals.into_iter().enumerate() {
            let lanes = left.saturating_sub(16 * h).min(16);
            let mask = ((1_u32 << lanes) - 1) as u16;
            _mm512_mask_storeu_ps(place.wrapping_add(16 * h), mask, totals);
        }
    }
}

/// Adds the products of a block, as all kernels do. The activations' blocks are so many bytes
/// behind their beginnings.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn add_block<const KIND: u8, const M: usize>(
    unit: *const u8,
    table: __m512i,
    rows: &[*const u8; M],
    at: usize,
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
