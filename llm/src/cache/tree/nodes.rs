//! Nodes of the tree: search, insertion, division and removal.

use super::{NodeId, PrefixTree, TreeNode, common};
use crate::cache::ShareGroup;
use crate::protocol::{SequenceId, Token};

impl PrefixTree {
    /// Returns the nodes of a live sequence, from its last one up to the root.
    pub(super) fn upwards(&self, id: SequenceId) -> impl Iterator<Item = NodeId> {
        let end = self.ends.get(&id).map(|end| end.node);
        std::iter::successors(end, |node| self.nodes[*node].parent)
    }

    /// Returns the nodes of a live sequence, from the root on.
    pub(super) fn path(&self, id: SequenceId) -> Vec<NodeId> {
        let mut path: Vec<NodeId> = self.upwards(id).collect();
        path.reverse();
        path
    }

    /// Returns the nodes of a group that match `tokens`, below the root, each with the position up
    /// to which it matches.
    pub(super) fn descend(&self, group: &ShareGroup, tokens: &[Token]) -> Vec<(NodeId, u32)> {
        let mut path = Vec::new();
        let Some(&root) = self.roots.get(group) else {
            return path;
        };
        let mut node = root;
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

    pub(super) fn add_child(&mut self, parent: NodeId, tokens: &[Token]) -> NodeId {
        let start = self.nodes[parent].end();
        let child = self.nodes.insert(TreeNode {
            parent: Some(parent),
            start,
            tokens: tokens.to_vec(),
            last_used: self.clock,
            ..TreeNode::default()
        });
        self.nodes[parent].children.insert(tokens[0], child);
        child
    }

    /// Divides a node at a position inside it. The lower half keeps the node's number and the
    /// sequences beyond the position; returns the upper half.
    pub(super) fn divide(&mut self, lower: NodeId, position: u32) -> NodeId {
        let node = &mut self.nodes[lower];
        let length = position - node.start;
        let after = node.tokens.split_off(length as usize);
        let mut upper = TreeNode {
            parent: node.parent,
            start: node.start,
            tokens: std::mem::replace(&mut node.tokens, after),
            holders: node.holders.clone(),
            last_used: node.last_used,
            ..TreeNode::default()
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
        let upper = self.nodes.insert(upper);
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

    /// Removes, from a node upwards, everything that neither a live sequence nor saved cells need.
    pub(super) fn trim(&mut self, from: NodeId) {
        let mut next = Some(from);
        while let Some(id) = next {
            let node = &mut self.nodes[id];
            if !node.children.is_empty() {
                return;
            }
            // Without children, all of its sequences end in it.
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
                self.nodes.remove(id);
                return;
            };
            let first = self.nodes.remove(id).tokens[0];
            self.nodes[parent].children.remove(&first);
            next = Some(parent);
        }
    }
}
