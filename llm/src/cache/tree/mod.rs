//! A radix tree over the tokens of all sequences: those that live in the KV cache and those whose
//! cells were saved.
//!
//! A node is a run of tokens that every sequence through it has in common. The first tokens of a
//! node may have saved cells, but only if all tokens before the node have. So the saved part of a
//! sequence is always a prefix. A live sequence may end inside a node, so a sequence that repeats
//! known text splits no node. A node without children ends with its last saved cell or with the
//! longest live sequence. Each group has its own root: its sequences share with no other group.
//!
//! If sequences need [checkpoints], these are at positions inside nodes. Then saved cells are
//! useful only up to the last checkpoint of a branch, and those after it are dropped.

use rustc_hash::FxHashMap;
use slab::Slab;
use smallvec::SmallVec;

use super::ShareGroup;
use crate::backend::SavedCells;
use crate::protocol::{SequenceId, Token};

mod checkpoints;
mod nodes;
mod saved;

use checkpoints::CheckpointEntry;

type NodeId = usize;

/// The prefix tree of all groups.
#[derive(Debug, Default)]
pub(crate) struct PrefixTree {
    nodes: Slab<TreeNode>,
    roots: FxHashMap<ShareGroup, NodeId>,
    /// The end of each live sequence.
    ends: FxHashMap<SequenceId, SequenceEnd>,
    /// Number of lookups and changes. The age of a node is the number since it was touched.
    clock: u64,
    saved_bytes: u64,
    saved_cells: u64,
    checkpoints: u32,
    checkpoint_bytes: u64,
}

#[derive(Debug, Default)]
struct TreeNode {
    /// Node above this one; `None` for a root.
    parent: Option<NodeId>,
    /// Position of the first token.
    start: u32,
    /// Tokens of the run; empty for a root.
    tokens: Vec<Token>,
    children: FxHashMap<Token, NodeId>,
    /// Live sequences that pass through or end in this node.
    holders: SmallVec<[SequenceId; 4]>,
    /// Saved cells of the first tokens.
    saved: Vec<SavedCells>,
    saved_cells: u32,
    /// Checkpoints in no order. Those behind the saved cells belong to live sequences.
    checkpoints: Vec<CheckpointEntry>,
    last_used: u64,
}

/// The end of a live sequence: its last node, of which it has at least one token, and the position
/// behind its last token.
#[derive(Clone, Copy, Debug)]
struct SequenceEnd {
    node: NodeId,
    at: u32,
}

impl TreeNode {
    fn end(&self) -> u32 {
        self.start + self.tokens.len() as u32
    }

    fn saved_end(&self) -> u32 {
        self.start + self.saved_cells
    }
}

/// Progress of a live sequence.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// Number of cells that it holds.
    pub(crate) computed: u32,
    /// True if it will compute the rest of its tokens.
    pub(crate) advances: bool,
}

/// Matches in the tree for the beginning of a list of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PrefixMatch {
    /// Number of tokens whose cells are saved.
    pub(crate) saved: u32,
    /// The live sequence with cells for the most tokens, and their number.
    pub(crate) live: Option<(SequenceId, u32)>,
    /// Number of tokens that live sequences have computed or are about to compute.
    pub(crate) coming: u32,
    /// The live sequence that is about to compute the most tokens, and their number.
    pub(crate) ahead: Option<(SequenceId, u32)>,
    /// Position of the last checkpoint whose cells are saved or held.
    pub(crate) checkpoint: u32,
    /// Number of tokens that match any sequence in the tree.
    pub(crate) known: u32,
}

impl PrefixTree {
    /// Adds a live sequence with all tokens it has so far.
    pub(crate) fn insert(&mut self, id: SequenceId, group: &ShareGroup, tokens: &[Token]) {
        assert!(!tokens.is_empty(), "a sequence has tokens");
        self.clock += 1;
        let nodes = &mut self.nodes;
        let root = self.roots.entry(group.clone());
        let root = *root.or_insert_with(|| nodes.insert(TreeNode::default()));
        self.nodes[root].holders.push(id);
        self.ends.insert(id, SequenceEnd { node: root, at: 0 });
        self.extend(id, tokens);
        for node in self.path(id) {
            self.nodes[node].last_used = self.clock;
        }
    }

    /// Adds the new tokens of a live sequence; `tokens` are all of its tokens.
    pub(crate) fn extend(&mut self, id: SequenceId, tokens: &[Token]) {
        let Some(&SequenceEnd { mut node, mut at }) = self.ends.get(&id) else {
            return;
        };
        // Follows the tokens that the tree has already.
        let mut rest = &tokens[at as usize..];
        loop {
            let known = &self.nodes[node].tokens[(at - self.nodes[node].start) as usize..];
            let same = common(known, rest);
            at += same as u32;
            rest = &rest[same..];
            let goes_on = self.nodes[node].end() == at;
            let child = rest.first().filter(|_| goes_on);
            let Some(&child) = child.and_then(|token| self.nodes[node].children.get(token)) else {
                break;
            };
            node = child;
            self.nodes[node].holders.push(id);
        }
        self.ends.insert(id, SequenceEnd { node, at });
        if rest.is_empty() {
            return;
        }
        if at < self.nodes[node].end() {
            node = self.divide(node, at);
        }
        let last = &mut self.nodes[node];
        let is_alone = last.holders.len() == 1 && last.children.is_empty();
        if is_alone && last.parent.is_some() {
            last.tokens.extend_from_slice(rest);
        } else {
            node = self.add_child(node, rest);
            self.nodes[node].holders.push(id);
        }
        let at = tokens.len() as u32;
        self.ends.insert(id, SequenceEnd { node, at });
    }

    /// Removes a live sequence. Its saved cells stay.
    pub(crate) fn remove(&mut self, id: SequenceId) {
        let path = self.path(id);
        let Some(end) = self.ends.remove(&id) else {
            return;
        };
        self.clock += 1;
        for node in path {
            let node = &mut self.nodes[node];
            node.holders.retain(|holder| *holder != id);
            node.last_used = self.clock;
        }
        self.trim(end.node);
    }

    /// Looks up the beginning of `tokens` and marks the matching nodes as used.
    pub(crate) fn find(
        &mut self,
        group: &ShareGroup,
        tokens: &[Token],
        progress: impl Fn(SequenceId) -> Progress,
    ) -> PrefixMatch {
        let path = self.descend(group, tokens);
        self.clock += 1;
        for (node, _) in &path {
            self.nodes[*node].last_used = self.clock;
        }
        self.found_on(&path, progress)
    }

    /// Looks up the beginning of `tokens` without marking anything as used.
    pub(crate) fn look(
        &self,
        group: &ShareGroup,
        tokens: &[Token],
        progress: impl Fn(SequenceId) -> Progress,
    ) -> PrefixMatch {
        self.found_on(&self.descend(group, tokens), progress)
    }

    /// Collects the matches along a path from a root.
    fn found_on(
        &self,
        path: &[(NodeId, u32)],
        progress: impl Fn(SequenceId) -> Progress,
    ) -> PrefixMatch {
        let mut found = PrefixMatch::default();
        for (node, end) in path {
            let node = &self.nodes[*node];
            if found.saved == node.start {
                found.saved = node.saved_end().min(*end);
            }
        }
        let mut held = 0;
        for (node, end) in path.iter().rev() {
            if *end <= held {
                break; // those that leave the path earlier hold no more
            }
            for id in &self.nodes[*node].holders {
                let Progress { computed, advances } = progress(*id);
                let reaches = self.ends[id].at.min(*end);
                let holds = computed.min(reaches);
                if holds > held {
                    held = holds;
                    found.live = Some((*id, held));
                }
                if advances {
                    found.coming = found.coming.max(reaches);
                    let most = found.ahead.map_or(computed, |(_, most)| computed.max(most));
                    if reaches > most {
                        found.ahead = Some((*id, reaches));
                    }
                }
            }
        }
        found.coming = found.coming.max(held);
        let there = found.saved.max(held);
        let nodes = path.iter().map(|(node, end)| (&self.nodes[*node], end));
        let checkpoints = nodes.flat_map(|(node, end)| node.checkpoints_to(there.min(*end)));
        found.checkpoint = checkpoints.max().unwrap_or(0);
        found.known = path.last().map_or(0, |(_, end)| *end);
        found
    }
}

/// Length of the common prefix of two lists.
pub(crate) fn common(one: &[Token], other: &[Token]) -> usize {
    one.iter()
        .zip(other)
        .take_while(|(one, other)| one == other)
        .count()
}

#[cfg(test)]
mod tests;
