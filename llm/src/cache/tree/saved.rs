//! Saved cells in the tree: insertion, lookup and eviction.

use std::ops::Range;

use super::{NodeId, PrefixTree, TreeNode};
use crate::backend::{SavedCells, SavedPart};
use crate::cache::ShareGroup;
use crate::protocol::{SequenceId, Token};

/// Number of cells in a piece of saved cells. Dividing a node or dropping the end of one copies at
/// most a piece.
pub(super) const PIECE: u32 = 256;
/// Position at which computing a token costs about twice as much as at the beginning, because of
/// attention.
const FAR_POSITION: u64 = 4_096;

impl PrefixTree {
    /// Number of a live sequence's first tokens whose cells are saved.
    pub(crate) fn saved_of(&self, id: SequenceId) -> u32 {
        let at = self.ends.get(&id).map_or(0, |end| end.at);
        let mut nodes = self.upwards(id).map(|node| &self.nodes[node]);
        let saved = nodes.find(|node| node.saved_cells > 0);
        saved.map_or(0, |node| node.saved_end().min(at))
    }

    /// Returns the ranges in which the unsaved cells of a live sequence are saved, up to position
    /// `last`. No range crosses the end of a node.
    pub(crate) fn pieces(&self, id: SequenceId, last: u32) -> Vec<Range<u32>> {
        let mut pieces = Vec::new();
        let mut from = self.saved_of(id);
        let last = self.ends.get(&id).map_or(0, |end| end.at.min(last));
        for node in self.path(id) {
            let end = self.nodes[node].end().min(last);
            while from < end {
                let to = (from + PIECE).min(end);
                pieces.push(from..to);
                from = to;
            }
        }
        pieces
    }

    /// Adds the next saved cells of a live sequence, in the ranges of [`pieces`](Self::pieces).
    pub(crate) fn save(&mut self, id: SequenceId, pieces: Vec<SavedCells>) {
        let mut pieces = pieces.into_iter().peekable();
        for node in self.path(id) {
            while let Some(piece) = pieces.next_if(|piece| {
                let content = &self.nodes[node];
                content.saved_end() + piece.cells() <= content.end()
            }) {
                self.push(node, piece);
            }
        }
    }

    /// Adds a piece to a node's saved cells.
    pub(super) fn push(&mut self, node: NodeId, piece: SavedCells) {
        let node = &mut self.nodes[node];
        node.saved_cells += piece.cells();
        self.saved_cells += u64::from(piece.cells());
        self.saved_bytes += piece.byte_len();
        node.saved.push(piece);
    }

    /// Returns the saved cells of `tokens` from position `from` on. All of them must be saved.
    pub(crate) fn parts(
        &self,
        group: &ShareGroup,
        tokens: &[Token],
        from: u32,
    ) -> Vec<SavedPart<'_>> {
        let mut parts = Vec::new();
        for (node, end) in self.descend(group, tokens) {
            let mut start = self.nodes[node].start;
            for saved in &self.nodes[node].saved {
                let cells = from.max(start)..end.min(start + saved.cells());
                if cells.start < cells.end {
                    parts.push(SavedPart {
                        saved,
                        cells: cells.start - start..cells.end - start,
                    });
                }
                start += saved.cells();
            }
        }
        parts
    }

    /// Size of all saved cells, in bytes.
    pub(crate) fn saved_bytes(&self) -> u64 {
        self.saved_bytes
    }

    /// Number of saved cells in the tree.
    pub(crate) fn saved_cells(&self) -> u64 {
        self.saved_cells
    }

    /// Drops the saved cells that are missed least: the end of the least recently used leaf. A leaf
    /// far from the beginning counts as younger, because its cells cost more to compute again.
    /// Returns the number of dropped cells; 0 if none were left.
    pub(crate) fn evict(&mut self) -> u64 {
        let worth = |node: &TreeNode| {
            let age = self.clock - node.last_used + 1;
            age * FAR_POSITION / (FAR_POSITION + u64::from(node.saved_end()))
        };
        let is_last = |node: &TreeNode| {
            let mut children = node.children.values();
            node.saved_cells > 0 && children.all(|child| self.nodes[*child].saved_cells == 0)
        };
        // A scan of all nodes: there are a few thousand at most, as each holds kilobytes to
        // megabytes of cells.
        let last = self.nodes.iter().filter(|entry| is_last(entry.1));
        let victim = last.max_by_key(|entry| worth(entry.1));
        let before = self.saved_cells;
        if let Some((victim, _)) = victim {
            self.pop(victim);
            if self.checkpoints > 0 {
                self.settle(victim);
            } else {
                self.trim(victim);
            }
        }
        before - self.saved_cells
    }

    /// Takes the last piece of a node's saved cells.
    pub(super) fn pop(&mut self, node: NodeId) -> Option<SavedCells> {
        let node = &mut self.nodes[node];
        let piece = node.saved.pop()?;
        node.saved_cells -= piece.cells();
        self.saved_cells -= u64::from(piece.cells());
        self.saved_bytes -= piece.byte_len();
        Some(piece)
    }
}
