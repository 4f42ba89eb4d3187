//! A single activation and weights of 8 or 4 bits with a scale: weights go from memory straight into the multiplication, in the order of
//! their addresses.

use std::arch::x86_64::*;

use crate::Format;
use crate::activation::{BYTES, Layout, ORIGIN};
use crate::panel::{BLOCK, GROUP, ROWS};
use crate::product::{Output, Product, Span};

/// Bytes that weights are fetched ahead. With twice as many, and with several activations, memory now and then gives a third less.
const AHEAD: usize = 1024;

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
    let bytes = const { BITS * GROUP + 2 * ROWS };
    let (layout, token) = (Layout::new(product.cols), span.tokens.start);
    for panel in span.panels.clone() {
        // SAFETY: the panel and the activation are of the product, and the results of the span, which the caller promises; any address may be
        // fetched.
        unsafe {
            let mut unit = product.panels.as_ptr().add(panel * layout.blocks() * bytes);
            let mut block = product.activations.as_ptr().add(token * layout.bytes());
            let mut totals = [_mm512_setzero_ps(); 2];
            for _ in 0..layout.blocks() {
                for line in 0..bytes / 64 {
                    _mm_prefetch::<_MM_HINT_T0>(unit.wrapping_add(AHEAD + 64 * line).cast());
                }
                add_block::<BITS>(unit, block, &mut totals);
                unit = unit.add(bytes);
                block = block.add(BYTES);
            }
            let left = product.rows - panel * ROWS;
            let place = out.at(token, panel * ROWS);
            for h in 0..2 {
                let lanes = left.saturating_sub(16 * h).min(16);
                let mask = ((1_u32 << lanes) - 1) as u16;
                _mm512_mask_storeu_ps(place.wrapping_add(16 * h), mask, totals[h]);
            }
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
