//! The nodes of a session, and which of them to look at next.

use std::ops::{Index, IndexMut};

use smallvec::{SmallVec, smallvec};

use crate::plan::{Plan, Producer};

use super::{
    guard::Call,
    node::{NodeState, Status},
};

pub(super) struct Nodes {
    states: Vec<NodeState>,
    ready: ReadySet,
    unopened: usize,
    /// The graph is being stopped: sources are closed instead of called.
    stopping: bool,
}

impl Nodes {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            states: plan.nodes.iter().map(NodeState::new).collect(),
            ready: ReadySet::new(plan.nodes.len()),
            unopened: plan.nodes.len(),
            stopping: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &NodeState> {
        self.states.iter()
    }

    /// Has a node looked at. It need not be due: that costs one look.
    #[inline]
    pub(super) fn look_at(&mut self, node: u16) {
        self.ready.insert(node);
    }

    /// The node to look at next: the one nearest to the outputs, so that what is on its way leaves
    /// before more comes in.
    #[inline]
    pub(super) fn next(&mut self) -> Option<u16> {
        self.ready.pop()
    }

    /// Whether a node is to be looked at.
    pub(super) fn any_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(super) fn any_unopened(&self) -> bool {
        self.unopened > 0
    }

    /// Notes that a node has opened.
    pub(super) fn opened(&mut self, node: usize) {
        self.unopened -= 1;
        self.ready.insert(node as u16);
    }

    /// From now on sources are closed instead of called.
    pub(super) fn stop_sources(&mut self) {
        self.stopping = true;
    }

    /// What a source is called for.
    pub(super) fn source_call(&self) -> Call {
        if self.stopping {
            Call::Close
        } else {
            Call::Source
        }
    }

    /// Notes that a queue has become full or has room again, for the node that feeds it.
    pub(super) fn edge_changed(&mut self, producer: Producer, full: bool) {
        let Producer::Node(node) = producer else {
            return;
        };
        let state = &mut self.states[usize::from(node)];
        state.edge_changed(full);
        if !full {
            self.ready.insert(node);
        }
    }

    /// Whether a node other than `node` may still be called from outside.
    pub(super) fn is_held_elsewhere(&self, node: usize) -> bool {
        let mut others = self.states.iter().enumerate();
        others.any(|(other, state)| {
            other != node && state.status() == Status::Open && state.is_held()
        })
    }

    /// Returns true if a node may still be called from outside.
    pub(super) fn any_held(&self) -> bool {
        let mut open = self.states.iter();
        open.any(|state| state.status() == Status::Open && state.is_held())
    }

    pub(super) fn clear(&mut self) {
        self.states.clear();
    }
}

impl Index<usize> for Nodes {
    type Output = NodeState;

    #[inline]
    fn index(&self, node: usize) -> &NodeState {
        &self.states[node]
    }
}

impl IndexMut<usize> for Nodes {
    #[inline]
    fn index_mut(&mut self, node: usize) -> &mut NodeState {
        &mut self.states[node]
    }
}

/// Numbers of nodes, as a bit set.
#[derive(Debug)]
struct ReadySet {
    words: SmallVec<[u64; 2]>,
}

impl ReadySet {
    fn new(nodes: usize) -> Self {
        Self {
            words: smallvec![0; nodes.div_ceil(64)],
        }
    }

    #[inline]
    fn insert(&mut self, node: u16) {
        let node = usize::from(node);
        self.words[node / 64] |= 1 << (node % 64);
    }

    fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Takes out the highest.
    fn pop(&mut self) -> Option<u16> {
        let (index, word) = self
            .words
            .iter_mut()
            .enumerate()
            .rev()
            .find(|(_, word)| **word != 0)?;
        let bit = 63 - word.leading_zeros();
        *word &= !(1 << bit);
        Some((index * 64) as u16 + bit as u16)
    }
}
