//! A few activations: weights go from memory straight into the multiplication, in the order of
//! their addresses, from a few places in turn. What is computed is what is computed of expanded
//! weights, bit for bit.

mod blocks;
mod sums;
mod superblocks;
mod vnni;

use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
use std::mem;
use std::ops::Range;

use crate::data::activation::{ActivationLayout, BYTES};
use crate::data::format::Format;
use crate::data::matmul::{Matmul, Output, Span};
use crate::data::panel::ROWS;
use crate::x86::counts::with_count;
use crate::x86::units::table;
use crate::x86::vector::Vector;
use blocks::{Blocks, EIGHT, FIVE, FOUR, MINIMA, POWERS, SCALED, TABLE};
use superblocks::{FIVE_K, FOUR_K, SIX_K, Superblocks};
use vnni::VnniBlocks;

/// Bytes from weights to those that are prefetched into L1.
const NEAR: usize = 512;
/// Bytes from weights to those that are prefetched into L2, at least: to the next unit if that is
/// larger, as its bytes are not read in order. Each line is prefetched twice: either alone reaches
/// less memory bandwidth.
const FAR: usize = 2048;

/// A unit of weights, which is added part by part.
trait Unit {
    /// The vectors that it is computed with.
    type Vector: Vector;
    /// The results of a panel and an activation, while they grow: vectors of all rows.
    type Totals: Copy;
    /// The number by which weights are too large when they are multiplied as unsigned bytes.
    const OFFSET: u8;
    /// Number of bytes of the unit.
    const BYTES: usize;
    /// Number of blocks of the unit.
    const BLOCKS: usize;
    /// Number of parts of the unit, which take about equally long.
    const PARTS: usize;

    /// Adds the products of a part and some activations, whose blocks for the unit begin so many
    /// bytes behind `rows`.
    ///
    /// # Safety
    /// The CPU must have the instructions; the unit and the blocks must exist.
    unsafe fn add<const M: usize>(
        unit: *const u8,
        part: usize,
        table: <Self::Vector as Vector>::Integers,
        rows: (&[*const u8; M], usize),
        totals: &mut [Self::Totals; M],
    );
}

/// Returns true if some activations are multiplied by [`multiply256`]. More take longer than by
/// tiles, for which weights are expanded once.
pub(crate) fn suits256(format: Format, tokens: usize) -> bool {
    match format {
        Format::Q8_0 | Format::Q4_0 => (1..=4).contains(&tokens),
        Format::Iq4Nl | Format::Iq4Xs | Format::MxFp4 => (1..=3).contains(&tokens),
        Format::Q5_0 | Format::Q5_1 | Format::Q4K | Format::Q5K | Format::Q6K => {
            (1..=2).contains(&tokens)
        }
        Format::Q2K | Format::Q3K | Format::F16 | Format::Bf16 => false,
    }
}

/// Returns true if some activations are multiplied by [`multiply512`].
pub(crate) fn suits512(format: Format, tokens: usize) -> bool {
    match format {
        Format::Q8_0 => (1..=12).contains(&tokens),
        Format::Q4_0 | Format::Iq4Nl | Format::MxFp4 => (1..=8).contains(&tokens),
        _ => false,
    }
}

/// Multiplies some of the panels by a few activations with AVX2, of a format that [`suits256`].
///
/// # Safety
/// The CPU must have the instructions. The buffers must fit the matmul, and no other code may read
/// or write the elements of `out` that belong to the span.
pub(crate) unsafe fn multiply256(matmul: &Matmul<'_>, span: &Span, out: Output<'_>) {
    // SAFETY: as the caller promises.
    unsafe {
        match matmul.format {
            Format::Q8_0 => narrow::<Blocks<EIGHT>>(matmul, span, out),
            Format::Q4_0 => narrow::<Blocks<FOUR>>(matmul, span, out),
            Format::Q5_0 => narrow::<Blocks<FIVE>>(matmul, span, out),
            Format::Q5_1 => narrow::<Blocks<MINIMA>>(matmul, span, out),
            Format::MxFp4 => narrow::<Blocks<POWERS>>(matmul, span, out),
            Format::Iq4Nl => narrow::<Blocks<TABLE>>(matmul, span, out),
            Format::Iq4Xs => narrow::<Blocks<SCALED>>(matmul, span, out),
            Format::Q4K => narrow::<Superblocks<FOUR_K>>(matmul, span, out),
            Format::Q5K => narrow::<Superblocks<FIVE_K>>(matmul, span, out),
            Format::Q6K => narrow::<Superblocks<SIX_K>>(matmul, span, out),
            Format::Q2K | Format::Q3K | Format::F16 | Format::Bf16 => {
                unreachable!("{:?} is not multiplied here", matmul.format)
            }
        }
    }
}

/// Multiplies some of the panels by a few activations with AVX512-VNNI, of a format that
/// [`suits512`].
///
/// # Safety
/// As for [`multiply256`].
pub(crate) unsafe fn multiply512(matmul: &Matmul<'_>, span: &Span, out: Output<'_>) {
    // SAFETY: as the caller promises.
    unsafe {
        match matmul.format {
            Format::Q8_0 => wide::<VnniBlocks<{ vnni::EIGHT }>>(matmul, span, out),
            Format::MxFp4 => wide::<VnniBlocks<{ vnni::POWERS }>>(matmul, span, out),
            _ => wide::<VnniBlocks<{ vnni::FOUR }>>(matmul, span, out),
        }
    }
}

/// Takes the panels from two places in turn: memory gives more from several at once.
unsafe fn narrow<U: Unit>(matmul: &Matmul<'_>, span: &Span, out: Output<'_>) {
    let mut left = span.panels.clone();
    let first = span.tokens.start;
    // SAFETY: as the caller promises.
    unsafe {
        with_count!(span.tokens.len(), M in [1 2 3 4], {
            several256::<U, M, 2>(matmul, &mut left, first, out);
            several256::<U, M, 1>(matmul, &mut left, first, out);
        });
    }
}

/// Takes the panels from two places in turn, or for one activation from four.
unsafe fn wide<U: Unit>(matmul: &Matmul<'_>, span: &Span, out: Output<'_>) {
    let mut left = span.panels.clone();
    let first = span.tokens.start;
    // SAFETY: as the caller promises.
    unsafe {
        if span.tokens.len() == 1 {
            several512::<U, 1, 4>(matmul, &mut left, first, out);
        }
        with_count!(span.tokens.len(), M in [1 2 3 4 5 6 7 8 9 10 11 12], {
            several512::<U, M, 2>(matmul, &mut left, first, out);
            several512::<U, M, 1>(matmul, &mut left, first, out);
        });
    }
}

#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn several256<U: Unit, const M: usize, const PLACES: usize>(
    matmul: &Matmul<'_>,
    left: &mut Range<usize>,
    token: usize,
    out: Output<'_>,
) {
    // SAFETY: as the caller promises.
    unsafe { several::<U, M, PLACES>(matmul, left, token, out) };
}

#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn several512<U: Unit, const M: usize, const PLACES: usize>(
    matmul: &Matmul<'_>,
    left: &mut Range<usize>,
    token: usize,
    out: Output<'_>,
) {
    // SAFETY: as the caller promises.
    unsafe { several::<U, M, PLACES>(matmul, left, token, out) };
}

/// Multiplies panels from several places at once, the same number from each place, and takes them
/// from those that are left.
#[expect(
    clippy::inline_always,
    reason = "what is not inlined lacks the instructions of its caller"
)]
#[inline(always)]
unsafe fn several<U: Unit, const M: usize, const PLACES: usize>(
    matmul: &Matmul<'_>,
    left: &mut Range<usize>,
    token: usize,
    out: Output<'_>,
) {
    let layout = ActivationLayout::new(matmul.cols);
    let units = layout.blocks() / U::BLOCKS;
    let each = left.len() / PLACES;
    let first = left.start;
    left.start += PLACES * each;
    // SAFETY: the panels and the activations are of the matmul, and the results of the span, which
    // the caller promises; any address may be prefetched; zero bits are zeros.
    unsafe {
        let table = table::<U::Vector>(matmul.format, U::OFFSET);
        let mut rows = [matmul.activations.as_ptr(); M];
        for t in 0..M {
            rows[t] = rows[t].add((token + t) * layout.bytes());
        }
        for panel in first..first + each {
            let mut places = [matmul.panels.as_ptr(); PLACES];
            for place in 0..PLACES {
                places[place] = places[place].add((panel + place * each) * units * U::BYTES);
            }
            let mut totals: [[U::Totals; M]; PLACES] = mem::zeroed();
            for unit in 0..units {
                for part in 0..U::PARTS {
                    for place in 0..PLACES {
                        prefetch::<U>(places[place], part);
                        let rows = (&rows, unit * U::BLOCKS * BYTES);
                        U::add::<M>(places[place], part, table, rows, &mut totals[place]);
                    }
                }
                for place in &mut places {
                    *place = place.add(U::BYTES);
                }
            }
            for place in 0..PLACES {
                let row = (panel + place * each) * ROWS;
                for t in 0..M {
                    let (out, results) = (out.at(token + t, row), totals[place][t]);
                    if row + ROWS <= matmul.rows {
                        out.cast::<U::Totals>().write_unaligned(results);
                    } else {
                        // These are a copy, so that the totals themselves stay in registers.
                        let results = (&raw const results).cast::<f32>();
                        out.copy_from_nonoverlapping(results, matmul.rows - row);
                    }
                }
            }
        }
    }
}

/// Prefetches the bytes behind those of a part.
#[inline]
fn prefetch<U: Unit>(unit: *const u8, part: usize) {
    let (bytes, far) = const {
        let far = if U::BYTES > FAR { U::BYTES } else { FAR };
        (U::BYTES / U::PARTS, far)
    };
    let first = unit.wrapping_add(part * bytes);
    for line in 0..bytes.div_ceil(64) {
        let line = first.wrapping_add(64 * line);
        // SAFETY: any address may be prefetched.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(line.wrapping_add(NEAR).cast());
            _mm_prefetch::<_MM_HINT_T1>(line.wrapping_add(far).cast());
        }
    }
}
