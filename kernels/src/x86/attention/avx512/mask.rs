//! Reads masks.

use std::arch::x86_64::*;
use std::ops::Range;

use super::super::seen::{self, AT_ONCE, Cells, SeenCells, UNSEEN};
use crate::data::attention::{Attention, BLOCK, Rows};

/// Reads what one token sees.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
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
        let present = u32::MAX >> (AT_ONCE - (cells - start).min(AT_ONCE));
        let index = start / AT_ONCE;
        let Some(mask) = mask else {
            seen.any.0[index] = present;
            seen.plain.0[index] = present;
            continue;
        };
        // SAFETY: the mask has an element for each cell, and what is absent is not read.
        let numbers = unsafe {
            let row = mask.at([token, 0, stream]).cast::<i16>();
            _mm512_maskz_loadu_epi16(present, row.add(first + start))
        };
        seen.any.0[index] =
            _mm512_mask_cmpneq_epi16_mask(present, numbers, _mm512_set1_epi16(UNSEEN));
        seen.plain.0[index] =
            _mm512_mask_cmpeq_epi16_mask(present, numbers, _mm512_setzero_si512());
    }
    seen
}

/// Reads what tokens see of the block that begins at the cell `first`; gives what any of them sees.
///
/// # Safety
/// The mask must have an element for each token and each cell.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
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
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn together(attention: &Attention, stream: usize, tokens: Range<usize>) -> usize {
    let Some(mask) = &attention.mask else {
        return tokens.end;
    };
    // SAFETY: as the caller promises.
    seen::together(tokens, attention.cells, |token, first| unsafe {
        read(attention, Some(mask), stream, token, first).any
    })
}
