//! Reads masks.

use std::arch::x86_64::*;
use std::ops::Range;

use super::super::seen::{self, AT_ONCE, Cells, SeenCells, UNSEEN};
use super::LANES;
use crate::data::attention::{Attention, BLOCK, Rows};

/// Reads what one token sees.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn read(
    attention: &Attention,
    mask: Option<&Rows>,
    stream: usize,
    token: usize,
    first: usize,
) -> SeenCells {
    let mut seen = SeenCells::default();
    let cells = (attention.cells - first).min(BLOCK);
    for start in (0..cells).step_by(AT_ONCE) {
        let count = (cells - start).min(AT_ONCE);
        let present = u32::MAX >> (AT_ONCE - count);
        let index = start / AT_ONCE;
        let Some(mask) = mask else {
            seen.any.0[index] = present;
            seen.plain.0[index] = present;
            continue;
        };
        let row = mask.at([token, 0, stream]).cast::<i16>();
        let row = row.wrapping_add(first + start);
        let mut last = [0; AT_ONCE];
        let numbers = if count == AT_ONCE {
            row
        } else {
            // SAFETY: the mask has an element for each cell.
            unsafe { row.copy_to_nonoverlapping(last.as_mut_ptr(), count) };
            last.as_ptr()
        };
        // SAFETY: there are so many elements.
        let numbers = unsafe {
            [
                _mm256_loadu_si256(numbers.cast()),
                _mm256_loadu_si256(numbers.add(AT_ONCE / 2).cast()),
            ]
        };
        seen.any.0[index] = !equal(numbers, UNSEEN) & present;
        seen.plain.0[index] = equal(numbers, 0) & present;
    }
    seen
}

/// A bit for each element that is this number.
#[inline]
#[target_feature(enable = "avx2")]
fn equal(elements: [__m256i; 2], number: i16) -> u32 {
    let number = _mm256_set1_epi16(number);
    let [low, high] = elements.map(|elements| _mm256_cmpeq_epi16(elements, number));
    // Packing takes half of each in turn.
    let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi16(low, high));
    _mm256_movemask_epi8(packed).cast_unsigned()
}

/// Reads what tokens see of the block that begins at the cell `first`; gives what any of them sees.
///
/// # Safety
/// The mask must have an element for each token and each cell.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn block(
    attention: &Attention,
    stream: usize,
    tokens: Range<usize>,
    first: usize,
    seen: &mut Vec<SeenCells>,
) -> Cells {
    let mask = attention.mask.as_ref();
    // SAFETY: as the caller promises.
    seen::read_tokens(tokens, seen, |token| unsafe {
        read(attention, mask, stream, token, first)
    })
}

/// The end of those tokens, from the first on, that are worth computing together.
///
/// # Safety
/// As for [`block`].
#[target_feature(enable = "avx2")]
pub(super) unsafe fn together(attention: &Attention, stream: usize, tokens: Range<usize>) -> usize {
    let Some(mask) = &attention.mask else {
        return tokens.end;
    };
    // SAFETY: as the caller promises.
    seen::together(tokens, attention.cells, |token, first| unsafe {
        read(attention, Some(mask), stream, token, first).any
    })
}

/// Writes what a row of the mask has for each of some cells. `out` has room for whole vectors.
///
/// # Safety
/// The row must have an element for each cell.
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn widen(row: *const u16, cells: &[u16], out: &mut [f32]) {
    for (cells, out) in cells.chunks(LANES).zip(out.chunks_exact_mut(LANES)) {
        let mut halves = [0; LANES];
        for (half, cell) in halves.iter_mut().zip(cells) {
            // SAFETY: as the caller promises.
            *half = unsafe { row.add(usize::from(*cell)).read_unaligned() };
        }
        // SAFETY: eight elements each.
        unsafe {
            let halves = _mm_loadu_si128(halves.as_ptr().cast());
            _mm256_storeu_ps(out.as_mut_ptr(), _mm256_cvtph_ps(halves));
        }
    }
}
