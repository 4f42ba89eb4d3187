//! A few activations with AVX2: weights go from memory straight into the multiplication, in the
//! order of their addresses, from a few places in turn. What is computed is what [`super::avx2`]
//! computes, bit for bit.

mod blocks;
mod superblocks;

use std::arch::x86_64::*;
use std::array;
use std::ops::Range;

use crate::data::activation::{BYTES, Layout, ORIGIN};
use crate::data::format::Format;
use crate::data::matmul::{Matmul, Output, Span};
use crate::data::panel::{BLOCK, ROWS};
use crate::x86::expand::table;
use crate::x86::vector::Avx2;
use blocks::{Blocks, EIGHT, FIVE, FOUR, MINIMA, POWERS, SCALED, TABLE};
use superblocks::{FIVE_K, FOUR_K, SIX_K, Superblocks};

/// How many bytes ahead weights are prefetched into L1.
const NEAR: usize = 512;
/// How many bytes ahead they are prefetched into L2, at least: the next unit if that is larger, as
/// its bytes are not read in order. Each line is prefetched twice: either alone reaches less memory
/// bandwidth.
const FAR: usize = 2048;

/// Rows of a vector.
const LANES: usize = 8;
/// Vectors of a panel's rows.
const VECTORS: usize = ROWS / LANES;

/// The results of a panel, while they grow.
type Totals<const M: usize> = [[__m256; VECTORS]; M];

/// A unit of weights, which is added part by part.
trait Unit {
    /// What weights are too large by when they are multiplied as unsigned bytes.
    const OFFSET: u8;
    /// Bytes of the unit.
    const BYTES: usize;
    /// Blocks of the unit.
    const BLOCKS: usize;
    /// Parts of the unit, which take about as long as each other.
    const PARTS: usize;

    /// Adds the products of a part and some activations, whose blocks begin at `rows` for the unit.
    ///
    /// # Safety
    /// The CPU must have the instructions; the unit and the blocks must exist.
    unsafe fn add<const M: usize>(
        unit: *const u8,
        part: usize,
        table: __m256i,
        rows: &[*const u8; M],
        totals: &mut Totals<M>,
    );
}

/// Whether some activations are multiplied here. More take longer than by tiles, for which weights
/// are expanded once.
pub(crate) fn suits(format: Format, tokens: usize) -> bool {
    match format {
        Format::Q8_0 | Format::Q4_0 => (1..=4).contains(&tokens),
        Format::Iq4Nl | Format::Iq4Xs | Format::MxFp4 => (1..=3).contains(&tokens),
        Format::Q5_0 | Format::Q5_1 | Format::Q4K | Format::Q5K | Format::Q6K => {
            (1..=2).contains(&tokens)
        }
        Format::Q2K | Format::Q3K | Format::F16 | Format::Bf16 => false,
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
            Format::Q8_0 => by_count::<Blocks<EIGHT>>(matmul, span, out),
            Format::Q4_0 => by_count::<Blocks<FOUR>>(matmul, span, out),
            Format::Q5_0 => by_count::<Blocks<FIVE>>(matmul, span, out),
            Format::Q5_1 => by_count::<Blocks<MINIMA>>(matmul, span, out),
            Format::MxFp4 => by_count::<Blocks<POWERS>>(matmul, span, out),
            Format::Iq4Nl => by_count::<Blocks<TABLE>>(matmul, span, out),
            Format::Iq4Xs => by_count::<Blocks<SCALED>>(matmul, span, out),
            Format::Q4K => by_count::<Superblocks<FOUR_K>>(matmul, span, out),
            Format::Q5K => by_count::<Superblocks<FIVE_K>>(matmul, span, out),
            Format::Q6K => by_count::<Superblocks<SIX_K>>(matmul, span, out),
            Format::Q2K | Format::Q3K | Format::F16 | Format::Bf16 => {
                unreachable!("{:?} is not multiplied here", matmul.format)
            }
        }
    }
}

/// Chooses the number of activations.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn by_count<U: Unit>(matmul: &Matmul<'_>, span: &Span, out: Output<'_>) {
    // SAFETY: as the caller promises.
    unsafe {
        match span.tokens.len() {
            1 => from_places::<U, 1>(matmul, span, out),
            2 => from_places::<U, 2>(matmul, span, out),
            3 => from_places::<U, 3>(matmul, span, out),
            4 => from_places::<U, 4>(matmul, span, out),
            tokens => unreachable!("{tokens} activations are not few"),
        }
    }
}

/// Takes the panels from two places in turn: memory gives more from several at once.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn from_places<U: Unit, const M: usize>(matmul: &Matmul<'_>, span: &Span, out: Output<'_>) {
    let mut left = span.panels.clone();
    let first = span.tokens.start;
    // SAFETY: as the caller promises.
    unsafe {
        several::<U, M, 2>(matmul, &mut left, first, out);
        several::<U, M, 1>(matmul, &mut left, first, out);
    }
}

/// Multiplies panels from several places at once, the same number from each place, and takes them
/// from those that are left.
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn several<U: Unit, const M: usize, const PLACES: usize>(
    matmul: &Matmul<'_>,
    left: &mut Range<usize>,
    token: usize,
    out: Output<'_>,
) {
    let layout = Layout::new(matmul.cols);
    // SAFETY: the CPU has the instructions.
    let table = unsafe { table::<Avx2>(matmul.format, U::OFFSET) };
    let units = layout.blocks() / U::BLOCKS;
    let each = left.len() / PLACES;
    let first = left.start;
    left.start += PLACES * each;
    for panel in first..first + each {
        // SAFETY: the panels and the activations are of the matmul, and the results of the span,
        // which the caller promises; any address may be prefetched.
        unsafe {
            let mut rows: [*const u8; M] = array::from_fn(|t| {
                let row = (token + t) * layout.bytes();
                matmul.activations.as_ptr().add(row)
            });
            let mut totals = [[[_mm256_setzero_ps(); VECTORS]; M]; PLACES];
            for unit in 0..units {
                for part in 0..U::PARTS {
                    for (place, totals) in totals.iter_mut().enumerate() {
                        let unit = (panel + place * each) * units + unit;
                        let unit = matmul.panels.as_ptr().add(unit * U::BYTES);
                        prefetch::<U>(unit, part);
                        U::add::<M>(unit, part, table, &rows, totals);
                    }
                }
                rows = rows.map(|row| row.add(U::BLOCKS * BYTES));
            }
            for (place, totals) in totals.into_iter().enumerate() {
                for (t, totals) in totals.into_iter().enumerate() {
                    put(matmul, panel + place * each, token + t, totals, out);
                }
            }
        }
    }
}

/// Prefetches what comes behind the bytes of a part.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn prefetch<U: Unit>(unit: *const u8, part: usize) {
    let (bytes, far) = const {
        let far = if U::BYTES > FAR { U::BYTES } else { FAR };
        (U::BYTES / U::PARTS, far)
    };
    let first = unit.wrapping_add(part * bytes);
    for line in 0..bytes.div_ceil(64) {
        let line = first.wrapping_add(64 * line);
        _mm_prefetch::<_MM_HINT_T0>(line.wrapping_add(NEAR).cast());
        _mm_prefetch::<_MM_HINT_T1>(line.wrapping_add(far).cast());
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

/// Four integers of an activation in every lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn four(row: *const u8, at: usize) -> __m256i {
    // SAFETY: as the caller promises.
    _mm256_set1_epi32(unsafe { row.add(at).cast::<i32>().read_unaligned() })
}

/// One of the factors of a block of an activation, in the order of
/// [`Factors`](crate::data::activation::Factors).
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn factor(block: *const u8, number: usize) -> __m256 {
    let at = BLOCK + 4 * number;
    // SAFETY: as the caller promises.
    _mm256_set1_ps(unsafe { block.add(at).cast::<f32>().read_unaligned() })
}

/// What the sum of a part of a block begins with: 0 for all of it, 1 for its first half, 2 for its
/// second.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn start(block: *const u8, part: usize, offset: u8) -> __m256i {
    let origin = ORIGIN.to_bits().cast_signed();
    let at = BLOCK + 4 * (1 + part);
    // SAFETY: as the caller promises.
    let start = unsafe { block.add(at).cast::<i32>().read_unaligned() };
    // That is of weights that are 128 too large.
    _mm256_set1_epi32(origin + (start - origin) / 128 * i32::from(offset))
}

/// Eight binary16 values.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn halves(values: *const u8) -> __m256 {
    // SAFETY: as the caller promises.
    _mm256_cvtph_ps(unsafe { _mm_loadu_si128(values.cast()) })
}

/// Adds a sum, times the factors of the rows and of the activation, to a total.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_scaled(sum: __m256i, scales: __m256, block: *const u8, total: &mut __m256) {
    let offsets = _mm256_mul_ps(scales, _mm256_set1_ps(-ORIGIN));
    let sum = _mm256_fmadd_ps(_mm256_castsi256_ps(sum), scales, offsets);
    // SAFETY: as the caller promises.
    *total = _mm256_fmadd_ps(sum, unsafe { factor(block, 0) }, *total);
}

/// Takes minima, times the sum of the activation's values, from a total.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn take_minima(minima: __m256, block: *const u8, total: &mut __m256) {
    // SAFETY: as the caller promises.
    *total = _mm256_fnmadd_ps(minima, unsafe { factor(block, 4) }, *total);
}
