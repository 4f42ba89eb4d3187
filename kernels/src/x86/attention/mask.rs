//! Which cells tokens see, as their mask says.

use std::arch::x86_64::*;
use std::ops::Range;

use crate::data::attention::{Attention, BLOCK, Rows};

/// Cells that are looked at together.
const AT_ONCE: usize = 32;
/// Minus infinity, of 16 bits.
const UNSEEN: i16 = 0xfc00_u16.cast_signed();

/// A bit for each cell of a block.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cells([u32; BLOCK / AT_ONCE]);

impl Cells {
    pub(super) fn has(&self, cell: u16) -> bool {
        let cell = usize::from(cell);
        self.0[cell / AT_ONCE] >> (cell % AT_ONCE) & 1 == 1
    }

    pub(super) fn or(&mut self, other: &Self) {
        self.0
            .iter_mut()
            .zip(other.0)
            .for_each(|(own, other)| *own |= other);
    }

    pub(super) fn and(&mut self, other: &Self) {
        self.0
            .iter_mut()
            .zip(other.0)
            .for_each(|(own, other)| *own &= other);
    }

    /// Replaces `cells` by the cells that are in here.
    pub(super) fn list(&self, cells: &mut Vec<u16>) {
        cells.clear();
        for (index, bits) in self.0.iter().enumerate() {
            let mut bits = *bits;
            while bits != 0 {
                cells.push((index * AT_ONCE) as u16 + bits.trailing_zeros() as u16);
                bits &= bits - 1;
            }
        }
    }

    fn count(&self) -> u32 {
        self.0.iter().map(|bits| bits.count_ones()).sum()
    }
}

/// What a token sees of a block.
#[derive(Clone, Copy, Default)]
pub(super) struct Seen {
    /// The cells it sees.
    pub(super) any: Cells,
    /// The seen cells whose scores stay as they are.
    pub(super) plain: Cells,
}

/// Reads what one token sees.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn read(
    attention: &Attention,
    mask: Option<&Rows>,
    stream: usize,
    token: usize,
    first: usize,
) -> Seen {
    let mut seen = Seen::default();
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
    seen: &mut [Seen],
) -> Cells {
    let mut any = Cells::default();
    for (token, seen) in tokens.zip(seen) {
        // SAFETY: as the caller promises.
        *seen = unsafe { read(attention, attention.mask.as_ref(), stream, token, first) };
        any.or(&seen.any);
    }
    any
}

/// The end of those tokens, from the first on, that are worth computing together: what they see is
/// mostly the same.
///
/// # Safety
/// As for [`block`].
pub(super) unsafe fn together(attention: &Attention, stream: usize, tokens: Range<usize>) -> usize {
    let Some(mask) = &attention.mask else {
        return tokens.end;
    };
    // SAFETY: as the caller promises; the CPU has the instructions.
    unsafe { together_by(attention, mask, stream, tokens) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn together_by(
    attention: &Attention,
    mask: &Rows,
    stream: usize,
    tokens: Range<usize>,
) -> usize {
    /// A token comes along that sees as many cells of another's as this times others.
    const MIN_SHARED: u32 = 4;
    let blocks = || (0..attention.cells).step_by(BLOCK);
    let mut end = tokens.start + 1;
    while end < tokens.end {
        let (mut shared, mut apart) = (0, 0);
        for first in blocks() {
            // SAFETY: as the caller promises.
            let [one, other] = unsafe {
                [tokens.start, end]
                    .map(|token| read(attention, Some(mask), stream, token, first).any)
            };
            let mut both = one;
            both.and(&other);
            shared += both.count();
            apart += one.count() + other.count() - 2 * both.count();
        }
        if apart > 2 * AT_ONCE as u32 && apart > shared / MIN_SHARED {
            break;
        }
        end += 1;
    }
    end
}
