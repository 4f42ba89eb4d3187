//! Checkpoints in the tree.

use super::{NodeId, PrefixTree, TreeNode};
use crate::backend::Checkpoint;
use crate::cache::ShareGroup;
use crate::protocol::{SequenceId, Token};

/// A checkpoint inside a node or at its end, behind the first `at` tokens of its sequences.
#[derive(Debug)]
pub(super) struct CheckpointEntry {
    pub(super) at: u32,
    checkpoint: Checkpoint,
    /// Clock at which it was made, or a sequence last continued from it.
    last_used: u64,
}

impl TreeNode {
    /// Returns the checkpoints of a node that are not beyond `end`.
    pub(super) fn checkpoints_to(&self, end: u32) -> impl Iterator<Item = u32> + '_ {
        let kept = self.checkpoints.iter().map(|kept| kept.at);
        kept.filter(move |at| *at <= end)
    }
}

impl PrefixTree {
    /// Keeps a checkpoint behind the first tokens of a live sequence.
    pub(crate) fn keep(&mut self, id: SequenceId, at: u32, checkpoint: Checkpoint) {
        let path = self.path(id).into_iter();
        let node = path.rev().find(|node| self.nodes[*node].start < at);
        let Some(node) = node.filter(|node| at <= self.nodes[*node].end()) else {
            return;
        };
        self.clock += 1;
        self.checkpoints += 1;
        self.checkpoint_bytes += checkpoint.byte_len();
        self.forget(node, |kept| kept.at == at);
        self.nodes[node].checkpoints.push(CheckpointEntry {
            at,
            checkpoint,
            last_used: self.clock,
        });
    }

    /// Returns the position of the last checkpoint of a live sequence within its first `most`
    /// tokens; 0 for none.
    pub(crate) fn checkpoint_of(&self, id: SequenceId, most: u32) -> u32 {
        let path = self.path(id);
        let nodes = path.iter().map(|node| &self.nodes[*node]);
        let positions = nodes.flat_map(|node| node.checkpoints_to(most));
        positions.max().unwrap_or(0)
    }

    /// Returns the checkpoint exactly behind these tokens.
    pub(crate) fn checkpoint(&self, group: &ShareGroup, tokens: &[Token]) -> Option<&Checkpoint> {
        let (node, end) = self.descend(group, tokens).pop()?;
        let mut kept = self.nodes[node].checkpoints.iter();
        let kept = kept.find(|kept| kept.at == end && end as usize == tokens.len())?;
        Some(&kept.checkpoint)
    }

    /// Marks the checkpoint behind these tokens as used.
    pub(crate) fn used(&mut self, group: &ShareGroup, tokens: &[Token]) {
        self.clock += 1;
        if let Some((node, end)) = self.descend(group, tokens).pop() {
            let kept = self.nodes[node].checkpoints.iter_mut();
            for kept in kept.filter(|kept| kept.at == end) {
                kept.last_used = self.clock;
            }
        }
    }

    /// Drops the least recently used checkpoint, and the saved cells that are useless without it.
    pub(crate) fn drop_checkpoint(&mut self) {
        // A scan of all nodes, as for cells.
        let nodes = self.nodes.iter();
        let oldest = nodes
            .flat_map(|(node, content)| content.checkpoints.iter().map(move |kept| (node, kept)))
            .min_by_key(|(_, kept)| kept.last_used);
        let Some((node, at)) = oldest.map(|(node, kept)| (node, kept.at)) else {
            return;
        };
        self.forget(node, |kept| kept.at == at);
        self.settle(node);
    }

    /// Number of checkpoints in the tree.
    pub(crate) fn checkpoints(&self) -> u32 {
        self.checkpoints
    }

    /// Size of all checkpoints, in bytes.
    pub(crate) fn checkpoint_bytes(&self) -> u64 {
        self.checkpoint_bytes
    }

    /// Drops the checkpoints of a node that `which` selects.
    pub(super) fn forget(&mut self, node: NodeId, which: impl Fn(&CheckpointEntry) -> bool) {
        let (count, bytes) = (&mut self.checkpoints, &mut self.checkpoint_bytes);
        self.nodes[node].checkpoints.retain(|kept| {
            let goes = which(kept);
            if goes {
                *count -= 1;
                *bytes -= kept.checkpoint.byte_len();
            }
            !goes
        });
    }

    /// Drops saved cells, from a node upwards, that are behind the last checkpoint of their branch.
    pub(super) fn settle(&mut self, from: NodeId) {
        let mut next = Some(from);
        while let Some(id) = next {
            let node = &self.nodes[id];
            let is_saved = |child: &NodeId| self.nodes[*child].saved_cells > 0;
            if node.children.values().any(is_saved) {
                break;
            }
            let last = node.checkpoints_to(node.saved_end()).max();
            let left = last.map_or(0, |last| last - node.start);
            next = node.parent.filter(|_| last.is_none());
            self.cut_saved(id, left);
        }
        self.trim(from);
    }

    /// Drops the saved cells of a node behind its first `left`.
    fn cut_saved(&mut self, id: NodeId, left: u32) {
        while self.nodes[id].saved_cells > left
            && let Some(last) = self.pop(id)
        {
            let before = self.nodes[id].saved_cells;
            if before < left {
                self.push(id, last.slice(0..left - before));
            }
        }
    }
}
