//! The nodes of a session, and the order in which they are checked.

use std::ops::{Index, IndexMut};

use smallvec::{SmallVec, smallvec};

use crate::plan::{Plan, Producer};

use super::{
    guard::CallReason,
    node::{NodeState, Status},
};

pub(super) struct Nodes {
    states: Vec<NodeState>,
    ready: ReadySet,
    unopened: usize,
    /// Set once the graph is being stopped: sources are closed instead of called.
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

    /// Marks a node to be checked. It need not be ready: an unneeded check is cheap.
    #[inline]
    pub(super) fn look_at(&mut self, node: u16) {
        self.ready.insert(node);
    }

    /// Takes the marked node nearest to the outputs, so that packets leave before others enter.
    #[inline]
    pub(super) fn next(&mut self) -> Option<u16> {
        self.ready.pop()
    }

    /// Returns `true` if a node is marked to be checked.
    pub(super) fn any_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(super) fn any_unopened(&self) -> bool {
        self.unopened > 0
    }

    /// Records that a node has opened.
    pub(super) fn opened(&mut self, node: usize) {
        self.unopened -= 1;
        self.ready.insert(node as u16);
    }

    /// Makes sources close instead of being called from now on.
    pub(super) fn stop_sources(&mut self) {
        self.stopping = true;
    }

    /// Returns the kind of the next call of a source.
    pub(super) fn source_call(&self) -> CallReason {
        if self.stopping {
            CallReason::Close
        } else {
            CallReason::Source
        }
    }

    /// Informs the node that feeds a queue that the queue has become full or has room again.
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

    /// Iterates over the nodes that an event can still call.
    pub(super) fn held(&self) -> impl Iterator<Item = usize> {
        let is_held = |state: &NodeState| state.status == Status::Open && state.is_held();
        let states = self.states.iter().enumerate();
        states.filter_map(move |(node, state)| is_held(state).then_some(node))
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

/// A bit set of node numbers.
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

    /// Removes and returns the highest number.
    fn pop(&mut self) -> Option<u16> {
        let mut words = self.words.iter_mut().enumerate().rev();
        let (index, word) = words.find(|(_, word)| **word != 0)?;
        let bit = 63 - word.leading_zeros();
        *word &= !(1 << bit);
        Some((index * 64) as u16 + bit as u16)
    }
}
