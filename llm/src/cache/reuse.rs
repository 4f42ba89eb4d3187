//! The part of the prefix tree that a sequence could reuse.

use super::PrefixMatch;
use crate::backend::KvLayout;
use crate::protocol::{SequenceId, Token};

/// Minimum number of tokens that are worth sharing, saving or waiting for.
pub(crate) const WORTHWHILE: u32 = 16;

/// The prefix that a sequence would reuse if it were admitted now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Number of reusable tokens, from the first.
    pub(crate) tokens: u32,
    /// The live sequence that provides the first of these tokens, and their number.
    pub(crate) live: Option<(SequenceId, u32)>,
    /// Number of new cells that the prefix takes.
    pub(crate) cells: u32,
    /// True if much more will be reusable soon.
    pub(crate) grows: bool,
    /// The live sequence that could provide more, and the number of its tokens behind which it must
    /// make a checkpoint for that.
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

impl PrefixMatch {
    /// Shortens the match to whole tiles: cells of a tile are not divided.
    pub(crate) fn to_whole_tiles(self, tokens: &[Token]) -> Self {
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
    /// Chooses the part of a match that is worth reusing, by the backend's layout and its ability
    /// to save and restore cells.
    pub(crate) fn from_match(found: &PrefixMatch, layout: KvLayout, can_save: bool) -> Self {
        let saved = if can_save { found.saved } else { 0 };
        let (shared, live) = match layout {
            // Shared cells take no new ones: copies only continue them.
            KvLayout::Unified => {
                let live = found.live.filter(|(_, tokens)| *tokens >= WORTHWHILE);
                (live.map_or(0, |(_, tokens)| tokens), live)
            }
            KvLayout::PerSequence => {
                let is_ahead = |tokens: u32| can_save && tokens >= saved + WORTHWHILE;
                (0, found.live.filter(|(_, tokens)| is_ahead(*tokens)))
            }
        };
        let known = live.map_or(saved, |(_, tokens)| tokens.max(saved));
        let copied = known - shared;
        let cells = if copied >= WORTHWHILE { copied } else { 0 };
        let tokens = shared + cells;
        let can_share = can_save || layout == KvLayout::Unified;
        Self {
            tokens,
            live,
            cells,
            grows: can_share && found.coming >= tokens + WORTHWHILE,
            stop: None,
        }
    }

    /// Chooses the part of a match that is worth reusing if sequences continue from checkpoints:
    /// copies of cells, in both layouts.
    pub(crate) fn from_checkpoints(found: &PrefixMatch) -> Self {
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
