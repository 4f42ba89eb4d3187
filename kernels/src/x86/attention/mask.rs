//! Cells that tokens see, by their masks.

#![expect(
    clippy::inline_always,
    reason = "what is not inlined lacks the instructions of its caller"
)]

use std::ops::Range;

use super::TokenRun;
use super::seen::{AT_ONCE, Cells, SeenCells, UNSEEN};
use crate::data::attention::{Attention, BLOCK, Rows};
use crate::x86::vector::Vector;

/// Reads what one token sees of the block that begins at the cell `first`.
#[inline(always)]
unsafe fn read<V: Vector>(
    attention: &Attention,
    mask: Option<&Rows>,
    (stream, token): (usize, usize),
    first: usize,
) -> SeenCells {
    let mut seen = SeenCells::default();
    let cells = (attention.cells - first).min(BLOCK);
    for start in (0..cells).step_by(AT_ONCE) {
        let count = (cells - start).min(AT_ONCE);
        let present = u32::MAX >> (AT_ONCE - count);
        let (mut any, mut plain) = (present, present);
        if let Some(mask) = mask {
            let row = mask.at([token, 0, stream]).cast::<i16>();
            let row = row.wrapping_add(first + start);
            // SAFETY: the mask has an element for each cell.
            unsafe {
                any = present & !V::equal_words(row, count, UNSEEN);
                plain = V::equal_words(row, count, 0);
            }
        }
        seen.any.0[start / AT_ONCE] = any;
        seen.plain.0[start / AT_ONCE] = plain;
    }
    seen
}

/// Reads what tokens of a run see of the block that begins at the cell `first`; returns what any of
/// them sees.
///
/// # Safety
/// The CPU must have the instructions, and the mask an element for each token and each cell.
#[inline(always)]
pub(super) unsafe fn block<V: Vector>(
    run: &TokenRun<'_>,
    first: usize,
    seen: &mut Vec<SeenCells>,
) -> Cells {
    let mask = run.attention.mask.as_ref();
    let mut any = Cells::default();
    seen.clear();
    for token in run.tokens.clone() {
        // SAFETY: as the caller promises.
        let of_token = unsafe { read::<V>(run.attention, mask, (run.stream, token), first) };
        any.or(&of_token.any);
        seen.push(of_token);
    }
    any
}

/// Returns the end of those tokens, from the first on, that are worth computing together: what they
/// see is mostly the same.
///
/// # Safety
/// As for [`block`].
#[inline(always)]
pub(super) unsafe fn together<V: Vector>(
    attention: &Attention,
    stream: usize,
    tokens: Range<usize>,
) -> usize {
    /// A token comes along that sees as many cells of another's as this times others.
    const MIN_SHARED: u32 = 4;
    if attention.mask.is_none() {
        return tokens.end;
    }
    let mask = attention.mask.as_ref();
    for end in tokens.start + 1..tokens.end {
        let (mut shared, mut apart) = (0, 0);
        for first in (0..attention.cells).step_by(BLOCK) {
            // SAFETY: as the caller promises.
            let (one, other) = unsafe {
                (
                    read::<V>(attention, mask, (stream, tokens.start), first).any,
                    read::<V>(attention, mask, (stream, end), first).any,
                )
            };
            let mut both = one;
            both.and(&other);
            shared += both.count();
            apart += one.count() + other.count() - 2 * both.count();
        }
        if apart > 2 * AT_ONCE as u32 && apart > shared / MIN_SHARED {
            return end;
        }
    }
    tokens.end
}
