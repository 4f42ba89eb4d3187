//! A single activation and weights of 8 or 4 bits with a scale: weights go from memory straight into the multiplication, in the order of
//! their addresses, from a few places in turn.

use std::arch::x86_64::*;
use std::array;
use std::ops::Range;

use crate::Format;
use crate::activation::{BYTES, Layout, ORIGIN};
use crate::panel::{BLOCK, GROUP, ROWS};
use crate::product::{Output, Product, Span};

/// Places that weights are read from in turn: memory gives more from several at once.
const PLACES: usize = 4;
/// Bytes that weights are fetched ahead into the first cache.
const NEAR: usize = 512;
/// Bytes that they are fetched ahead into the second. Each line is fetched twice: with either alone, memory gives less.
const FAR: usize = 2048;

/// Whether some activations are multiplied here.
pub(crate) fn suits(format: Format, tokens: usize) -> bool {
    matches!(format, Format::Q8_0 | Format::Q4_0) && tokens == 1
}

/// Multiplies some of the panels by an activation, of a format that this [`suits`].
///
/// # Safety
/// The CPU must have the instructions. The buffers must hold the product, and nobody else may read or write the numbers of `out` that belong to the span.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(crate) unsafe fn multiply(product: &Product<'_>, span: &Span, out: Output<'_>) {
    // SAFETY: as the caller promises.
    unsafe {
        if product.format == Format::Q4_0 {
            panels::<4>(product, span, out);
        } else {
            panels::<8>(product, span, out);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn panels<const BITS: usize>(product: &Product<'_>, span: &Span, out: Output<'_>) {
    let (mut panels, token) = (span.panels.clone(), span.tokens.start);
    // SAFETY: as the caller promises.
    unsafe {
        several::<BITS, PLACES>(product, &mut panels, token, out);
        several::<BITS, 2>(product, &mut panels, token, out);
        several::<BITS, 1>(product, &mut panels, token, out);
    }
}

/// Multiplies panels from several places at once, the same number from each place, and takes them from those that are left.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn several<const BITS: usize, const PLACES: usize>(
    product: &Product<'_>,
    left: &mut Range<usize>,
    token: usize,
    out: Output<'_>,
) {
    let bytes = const { BITS * GROUP + 2 * ROWS };
    let layout = Layout::new(product.cols);
    let each = left.len() / PLACES;
    let first = left.start;
    left.start += PLACES * each;
    for panel in first..first + each {
        // SAFETY: the panels and the activation are of the product, and the results of the span, which the caller promises; any address
        // may be fetched.
        unsafe {
            let mut units: [*const u8; PLACES] = array::from_fn(|place| {
                let panel = panel + place * each;
                product.panels.as_ptr().add(panel * layout.blocks() * bytes)
            });
            let mut block = product.activations.as_ptr().add(token * layout.bytes());
            let mut totals = [[_mm512_setzero_ps(); 2]; PLACES];
            for _ in 0..layout.blocks() {
                for (unit, totals) in units.iter_mut().zip(&mut totals) {
                    for line in 0..bytes / 64 {
                        let line = unit.wrapping_add(64 * line);
                        _mm_prefetch::<_MM_HINT_T0>(line.wrapping_add(NEAR).cast());
                        _mm_prefetch::<_MM_HINT_T1>(line.wrapping_add(FAR).cast());
                    }
                    add_block::<BITS>(*unit, block, totals);
                    *unit = unit.add(bytes);
                }
                block = block.add(BYTES);
            }
            for (place, totals) in totals.into_iter().enumerate() {
                put(product, panel + place * each, token, totals, out);
            }
        }
    }
}

/// Writes the results of a panel.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn put(
    product: &Product<'_>,
    panel: usize,
    token: usize,
    totals: [__m512; 2],
    out: Output<'_>,
) {
    let left = product.rows - panel * ROWS;
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

/// Adds the products of a block, as all kernels do.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn add_block<const BITS: usize>(
    unit: *const u8,
    block: *const u8,
    totals: &mut [__m512; 2],
) {
    // SAFETY: as the caller promises.
    unsafe {
        // The activation's scale, and what sums start from.
        let scale = _mm512_set1_ps(block.add(BLOCK).cast::<f32>().read_unaligned());
        let start = block.add(BLOCK + 4).cast::<i32>().read_unaligned();
        let four =
            |group: usize| _mm512_set1_epi32(block.add(4 * group).cast::<i32>().read_unaligned());
        for h in 0..2 {
            let mut sums = _mm512_set1_epi32(start);
            for group in 0..BITS {
                let bytes = _mm512_loadu_si512(unit.add(GROUP * group + 64 * h).cast());
                if BITS == 8 {
                    let weights = _mm512_xor_si512(bytes, _mm512_set1_epi8(-128));
                    sums = _mm512_dpbusd_epi32(sums, weights, four(group));
                } else {
                    let low = _mm512_set1_epi8(15);
                    // 128 more than the weight, which is 8 less than its four bits.
                    let offset = _mm512_set1_epi8(120);
                    let first = _mm512_and_si512(bytes, low);
                    let second = _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), low);
                    let first = _mm512_add_epi8(first, offset);
                    let second = _mm512_add_epi8(second, offset);
                    sums = _mm512_dpbusd_epi32(sums, first, four(group));
                    sums = _mm512_dpbusd_epi32(sums, second, four(group + 4));
                }
            }
            let scales = unit.add(BITS * GROUP + 32 * h);
            let scales = _mm512_cvtph_ps(_mm256_loadu_si256(scales.cast()));
            let offsets = _mm512_mul_ps(scales, _mm512_set1_ps(-ORIGIN));
            let sums = _mm512_fmadd_ps(_mm512_castsi512_ps(sums), scales, offsets);
            totals[h] = _mm512_fmadd_ps(sums, scale, totals[h]);
        }
    }
}
