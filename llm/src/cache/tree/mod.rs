//! A radix tree over the tokens of all sequences: those that live in the KV cache and those whose
//! cells were saved.
//!
//! A node is a run of tokens that every sequence through it has in common. The first tokens of a
//! node may have saved cells, and they have only if all tokens before the node have, so what is
//! saved of a sequence is always a prefix. A live sequence may end inside a node, so one that
//! repeats known text splits none. A node without children ends with its last saved cell or with
//! the longest live sequence. Each group has a root of its own: its sequences share with no others.
//!
//! If sequences need [checkpoints], these are at positions inside nodes. Then saved cells are
//! useful only up to the last checkpoint of a branch, and those after it are dropped.

use std::ops::Range;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::ShareGroup;
use crate::backend::{SavedCells, SavedPart};
use crate::protocol::{SequenceId, Token};

mod checkpoints;

use checkpoints::Kept;

/// Saved cells are cut into pieces of this many, so that dividing a node or giving up the end of
/// one copies little.
const PIECE: u32 = 256;
/// Positions after which computing a token costs about twice as much as at the beginning, because
/// of attention.
const FAR_POSITION: u64 = 4_096;

type NodeId = usize;

/// The tree.
#[derive(Debug, Default)]
pub(crate) struct PrefixTree {
    nodes: Vec<Node>,
    free: Vec<NodeId>,
    roots: FxHashMap<ShareGroup, NodeId>,
    /// Where each live sequence ends.
    ends: FxHashMap<SequenceId, End>,
    /// Counts lookups and changes; the age of a node is how long ago it was touched.
    clock: u64,
    saved_bytes: u64,
    saved_cells: u64,
    checkpoints: u32,
    checkpoint_bytes: u64,
}

#[derive(Debug, Default)]
struct Node {
    /// None for a root.
    parent: Option<NodeId>,
    /// Position of the first token.
    start: u32,
    /// Empty for a root.
    tokens: Vec<Token>,
    children: FxHashMap<Token, NodeId>,
    /// Live sequences that pass through or end in here.
    holders: SmallVec<[SequenceId; 4]>,
    /// Cells of the first tokens.
    saved: Vec<SavedCells>,
    saved_cells: u32,
    /// In no order. Those behind the saved cells are of live sequences.
    checkpoints: Vec<Kept>,
    last_used: u64,
}

/// Where a live sequence ends: behind the last token that it has of a node, of which it has at
/// least one.
#[derive(Clone, Copy, Debug)]
struct End {
    node: NodeId,
    at: u32,
}

impl Node {
    fn end(&self) -> u32 {
        self.start + self.tokens.len() as u32
    }

    fn saved_end(&self) -> u32 {
        self.start + self.saved_cells
    }
}

/// How far a live sequence is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Cells it holds.
    pub(crate) computed: u32,
    /// Whether it goes on to compute the rest of its tokens.
    pub(crate) advances: bool,
}

/// What the tree has for the beginning of a list of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Tokens whose cells are saved.
    pub(crate) saved: u32,
    /// The live sequence that holds the cells of the most of the tokens, and how many these are.
    pub(crate) live: Option<(SequenceId, u32)>,
    /// Tokens that live sequences hold or are about to compute.
    pub(crate) coming: u32,
    /// The live sequence that is about to compute most of the tokens, and how many these are.
    pub(crate) ahead: Option<(SequenceId, u32)>,
    /// The last checkpoint whose cells are saved or held.
    pub(crate) checkpoint: u32,
    /// Tokens that any sequence in the tree begins with.
    pub(crate) known: u32,
}

impl PrefixTree {
    /// Adds a live sequence with all tokens it has so far.
    pub(crate) fn insert(&mut self, id: SequenceId, group: &ShareGroup, tokens: &[Token]) {
        assert!(!tokens.is_empty(), "a sequence has tokens");
        self.clock += 1;
        let root = if let Some(root) = self.roots.get(group) {
            *root
        } else {
            let root = self.add(Node::default());
            self.roots.insert(group.clone(), root);
            root
        };
        self.nodes[root].holders.push(id);
        self.ends.insert(id, End { node: root, at: 0 });
        self.extend(id, tokens);
        let mut next = self.ends.get(&id).map(|end| end.node);
        while let Some(node) = next {
            self.nodes[node].last_used = self.clock;
            next = self.nodes[node].parent;
        }
    }

    /// Takes in tokens that were added to a live sequence; `tokens` are all of its tokens.
    pub(crate) fn extend(&mut self, id: SequenceId, tokens: &[Token]) {
        let Some(&End { mut node, mut at }) = self.ends.get(&id) else {
            return;
        };
        // Along what the tree has already.
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
        self.ends.insert(id, End { node, at });
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
        self.ends.insert(id, End { node, at });
    }

    /// Takes a live sequence out. What is saved of it stays.
    pub(crate) fn remove(&mut self, id: SequenceId) {
        let Some(end) = self.ends.remove(&id) else {
            return;
        };
        self.clock += 1;
        let mut next = Some(end.node);
        while let Some(node) = next {
            let node = &mut self.nodes[node];
            node.holders.retain(|holder| *holder != id);
            node.last_used = self.clock;
            next = node.parent;
        }
        self.trim(end.node);
    }

    /// Looks for the beginning of `tokens`, for a sequence that will use what is found.
    pub(crate) fn find(
        &mut self,
        group: &ShareGroup,
        tokens: &[Token],
        progress: impl Fn(SequenceId) -> Progress,
    ) -> Found {
        let Some(&root) = self.roots.get(group) else {
            return Found::default();
        };
        let path = self.descend(root, tokens);
        self.clock += 1;
        for (node, _) in &path {
            self.nodes[*node].last_used = self.clock;
        }
        self.found_on(&path, progress)
    }

    /// Looks for the beginning of `tokens` without marking it as used.
    pub(crate) fn look(
        &self,
        group: &ShareGroup,
        tokens: &[Token],
        progress: impl Fn(SequenceId) -> Progress,
    ) -> Found {
        let Some(&root) = self.roots.get(group) else {
            return Found::default();
        };
        self.found_on(&self.descend(root, tokens), progress)
    }

    /// What there is along a path from a root.
    fn found_on(&self, path: &[(NodeId, u32)], progress: impl Fn(SequenceId) -> Progress) -> Found {
        let mut found = Found::default();
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

    /// How many of a live sequence's first tokens have saved cells.
    pub(crate) fn saved_of(&self, id: SequenceId) -> u32 {
        let Some(end) = self.ends.get(&id) else {
            return 0;
        };
        let mut next = Some(end.node);
        while let Some(node) = next {
            let node = &self.nodes[node];
            if node.saved_cells > 0 {
                return node.saved_end().min(end.at);
            }
            next = node.parent;
        }
        0
    }

    /// How the cells of a live sequence that are not [saved](Self::saved_of) are to be cut for
    /// [`save`](Self::save), up to a position: none goes beyond the end of a node.
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

    /// Keeps the next cells of a live sequence, cut into [`pieces`](Self::pieces).
    pub(crate) fn save(&mut self, id: SequenceId, pieces: Vec<SavedCells>) {
        let mut pieces = pieces.into_iter().peekable();
        for node in self.path(id) {
            let node = &mut self.nodes[node];
            while let Some(piece) =
                pieces.next_if(|piece| node.saved_end() + piece.cells() <= node.end())
            {
                node.saved_cells += piece.cells();
                self.saved_cells += u64::from(piece.cells());
                self.saved_bytes += piece.byte_len();
                node.saved.push(piece);
            }
        }
    }

    /// The nodes of a live sequence, from the root on.
    fn path(&self, id: SequenceId) -> Vec<NodeId> {
        let end = self.ends.get(&id).map(|end| end.node);
        let upwards = std::iter::successors(end, |node| self.nodes[*node].parent);
        let mut path: Vec<NodeId> = upwards.collect();
        path.reverse();
        path
    }

    /// Where the cells of some of the tokens are, which must all be saved.
    pub(crate) fn parts(
        &self,
        group: &ShareGroup,
        tokens: &[Token],
        from: u32,
    ) -> Vec<SavedPart<'_>> {
        let mut parts = Vec::new();
        let Some(&root) = self.roots.get(group) else {
            return parts;
        };
        for (node, end) in self.descend(root, tokens) {
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

    /// Bytes of all saved cells.
    pub(crate) fn saved_bytes(&self) -> u64 {
        self.saved_bytes
    }

    /// Number of saved cells.
    pub(crate) fn saved_cells(&self) -> u64 {
        self.saved_cells
    }

    /// Gives up the saved cells that are missed least: the end of the longest-unused leaf, where a
    /// leaf far from the beginning counts as younger, because its cells cost more to compute again.
    /// Returns how many cells these were, 0 if none are left.
    pub(crate) fn evict(&mut self) -> u64 {
        let worth = |node: &Node| {
            let age = self.clock - node.last_used + 1;
            age * FAR_POSITION / (FAR_POSITION + u64::from(node.saved_end()))
        };
        let is_last = |node: &Node| {
            let mut children = node.children.values();
            node.saved_cells > 0 && children.all(|child| self.nodes[*child].saved_cells == 0)
        };
        // A scan: there are a few thousand nodes at most, as each holds kilobytes to megabytes of
        // cells.
        let victim = (0..self.nodes.len())
            .filter(|node| is_last(&self.nodes[*node]))
            .max_by_key(|node| worth(&self.nodes[*node]));
        let before = self.saved_cells;
        if let Some(victim) = victim {
            self.pop(victim);
            if self.checkpoints > 0 {
                self.settle(victim);
            } else {
                self.trim(victim);
            }
        }
        before - self.saved_cells
    }

    /// Gives up the last piece of a node's saved cells.
    fn pop(&mut self, node: NodeId) {
        let node = &mut self.nodes[node];
        if let Some(piece) = node.saved.pop() {
            node.saved_cells -= piece.cells();
            self.saved_cells -= u64::from(piece.cells());
            self.saved_bytes -= piece.byte_len();
        }
    }

    /// The nodes below `from` that `tokens` lead through, each with the position up to which it
    /// agrees.
    fn descend(&self, from: NodeId, tokens: &[Token]) -> Vec<(NodeId, u32)> {
        let mut path = Vec::new();
        let mut node = from;
        let mut rest = tokens;
        while let Some(next) = rest
            .first()
            .and_then(|token| self.nodes[node].children.get(token))
        {
            node = *next;
            let run = &self.nodes[node].tokens;
            let same = common(run, rest);
            path.push((node, self.nodes[node].start + same as u32));
            if same < run.len() {
                break;
            }
            rest = &rest[same..];
        }
        path
    }

    fn add(&mut self, node: Node) -> NodeId {
        if let Some(id) = self.free.pop() {
            self.nodes[id] = node;
            return id;
        }
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn add_child(&mut self, parent: NodeId, tokens: &[Token]) -> NodeId {
        let child = self.add(Node {
            parent: Some(parent),
            start: self.nodes[parent].end(),
            tokens: tokens.to_vec(),
            last_used: self.clock,
            ..Node::default()
        });
        self.nodes[parent].children.insert(tokens[0], child);
        child
    }

    /// Divides a node at a position inside it. The lower half keeps the node's number, and the
    /// sequences that go beyond the position; returns the upper half.
    fn divide(&mut self, lower: NodeId, position: u32) -> NodeId {
        let node = &mut self.nodes[lower];
        let length = position - node.start;
        let after = node.tokens.split_off(length as usize);
        let mut upper = Node {
            parent: node.parent,
            start: node.start,
            tokens: std::mem::replace(&mut node.tokens, after),
            holders: node.holders.clone(),
            last_used: node.last_used,
            ..Node::default()
        };
        upper.children.insert(node.tokens[0], lower);
        for piece in std::mem::take(&mut node.saved) {
            let room = length - upper.saved_cells;
            let inside = piece.cells().min(room);
            upper.saved_cells += inside;
            if inside == piece.cells() {
                upper.saved.push(piece);
            } else if inside == 0 {
                node.saved.push(piece);
            } else {
                upper.saved.push(piece.slice(0..inside));
                node.saved.push(piece.slice(inside..piece.cells()));
            }
        }
        node.saved_cells -= upper.saved_cells;
        let checkpoints = std::mem::take(&mut node.checkpoints);
        (upper.checkpoints, node.checkpoints) = checkpoints
            .into_iter()
            .partition(|kept| kept.at <= position);
        node.start = position;
        let (parent, first) = (upper.parent, upper.tokens[0]);
        let upper = self.add(upper);
        let ends = &mut self.ends;
        self.nodes[lower].holders.retain(|holder| {
            let ends_above = ends
                .get_mut(holder)
                .filter(|end| end.node == lower && end.at <= position);
            let goes_beyond = ends_above.is_none();
            if let Some(end) = ends_above {
                end.node = upper;
            }
            goes_beyond
        });
        self.nodes[lower].parent = Some(upper);
        let parent = parent.expect("a root has no tokens to divide");
        self.nodes[parent].children.insert(first, upper);
        upper
    }

    /// Cuts off, from a node upwards, what neither a live sequence nor saved cells need.
    fn trim(&mut self, from: NodeId) {
        let mut next = Some(from);
        while let Some(id) = next {
            let node = &mut self.nodes[id];
            if !node.children.is_empty() {
                return;
            }
            // Without children it is the end of all sequences in it.
            let held = node.holders.iter().map(|holder| self.ends[holder].at).max();
            let needed = node.saved_end().max(held.unwrap_or(0));
            let (start, parent) = (node.start, node.parent);
            if needed > start {
                node.tokens.truncate((needed - start) as usize);
                self.forget(id, |kept| kept.at > needed);
                return;
            }
            self.forget(id, |_| true);
            let Some(parent) = parent else {
                self.roots.retain(|_, root| *root != id);
                self.free.push(id);
                return;
            };
            let first = self.nodes[id].tokens[0];
            self.nodes[parent].children.remove(&first);
            self.nodes[id] = Node::default();
            self.free.push(id);
            next = Some(parent);
        }
    }
}

/// How many tokens two lists begin with alike.
fn common(one: &[Token], other: &[Token]) -> usize {
    one.iter()
        .zip(other)
        .take_while(|(one, other)| one == other)
        .count()
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
