//! The part of the prefix tree that a sequence could reuse.

use super::Found;
use crate::backend::KvLayout;
use crate::protocol::{SequenceId, Token};

/// Fewer tokens are not worth the bookkeeping of sharing, saving or waiting for them.
pub(crate) const WORTHWHILE: u32 = 16;

/// What a sequence could reuse if it were admitted now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Tokens in all.
    pub(crate) tokens: u32,
    /// Of these, the first ones come from this live sequence.
    pub(crate) live: Option<(SequenceId, u32)>,
    /// New cells they take.
    pub(crate) cells: u32,
    /// Whether much more will be there soon.
    pub(crate) grows: bool,
    /// The live sequence that will have more there, if it makes a checkpoint behind so many of its
    /// tokens.
    pub(crate) stop: Option<(SequenceId, u32)>,
}

/// Rounds `count` down so that the first `count` tokens do not end inside a tile. All positions of
/// a tile have the same placeholder, and no other tile has it.
pub(crate) fn without_part_of_tile(tokens: &[Token], count: u32) -> u32 {
    let is_inside = |end: &usize| {
        let neighbors = end.checked_sub(1).and_then(|last| tokens.get(last..=*end));
        neighbors.is_some_and(|pair| pair[0] < 0 && pair[0] == pair[1])
    };
    let end = (0..=count as usize).rev().find(|end| !is_inside(end));
    end.unwrap_or(0) as u32
}

impl Found {
    /// What there is of these tokens without parts of tiles, whose cells are not divided.
    pub(crate) fn of_whole_tiles(self, tokens: &[Token]) -> Self {
        Self {
            saved: without_part_of_tile(tokens, self.saved),
            live: self
                .live
                .map(|(id, count)| (id, without_part_of_tile(tokens, count))),
            coming: without_part_of_tile(tokens, self.coming),
            ..self
        }
    }
}

impl Offer {
    /// What is worth taking over of what was found, where the backend has this layout, and can save
    /// and restore cells or not.
    pub(crate) fn of(found: &Found, layout: KvLayout, can_save: bool) -> Self {
        let saved = if can_save { found.saved } else { 0 };
        let live_tokens = found.live.map_or(0, |(_, tokens)| tokens);
        let mut offer = match layout {
            // What is shared takes no cells: copies only continue it.
            KvLayout::Unified => {
                let live = found.live.filter(|(_, tokens)| *tokens >= WORTHWHILE);
                let shared = live.map_or(0, |(_, tokens)| tokens);
                let copied = saved.saturating_sub(shared);
                let cells = if copied >= WORTHWHILE { copied } else { 0 };
                Self {
                    tokens: shared + cells,
                    live,
                    cells,
                    ..Self::default()
                }
            }
            KvLayout::PerSequence => {
                let is_ahead = can_save && live_tokens >= saved + WORTHWHILE;
                let tokens = if is_ahead { live_tokens } else { saved };
                let tokens = if tokens >= WORTHWHILE { tokens } else { 0 };
                Self {
                    tokens,
                    live: found.live.filter(|_| is_ahead),
                    cells: tokens,
                    ..Self::default()
                }
            }
        };
        let can_share = can_save || layout == KvLayout::Unified;
        offer.grows = can_share && found.coming >= offer.tokens + WORTHWHILE;
        offer
    }

    /// What is worth taking over where sequences go on from checkpoints: copies of cells, in either
    /// layout.
    pub(crate) fn of_checkpoints(found: &Found) -> Self {
        let at = found.checkpoint;
        let tokens = if at >= WORTHWHILE { at } else { 0 };
        let stop = found.ahead.filter(|(_, at)| *at >= tokens + WORTHWHILE);
        Self {
            tokens,
            live: found
                .live
                .filter(|_| tokens > found.saved)
                .map(|(id, _)| (id, tokens)),
            cells: tokens,
            grows: stop.is_some(),
            stop,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_is_taken_over_as_a_whole_or_not_at_all() {
        let tokens = [5, -1, -1, -1, -2, -2, 6];
        let whole: Vec<u32> = (0..8)
            .map(|count| without_part_of_tile(&tokens, count))
            .collect();
        assert_eq!(whole, [0, 1, 1, 1, 4, 4, 6, 7]);
    }
}
