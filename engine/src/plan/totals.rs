//! What the sessions of a plan did, added up when each has ended.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// The sum over the sessions of a plan that have ended.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// How many there were.
    pub sessions: u64,
    /// By node, in the order of the plan; empty before the first has ended.
    pub nodes: Vec<NodeTotals>,
    /// By stream, in the order of the plan: its packets; empty before the first has ended.
    pub packets: Vec<u64>,
}

/// What a node did.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeTotals {
    /// How often it was called.
    pub calls: u64,
    /// How many sessions failed in it.
    pub errors: u64,
    /// The time that its calls took.
    pub busy: Duration,
}

/// The sum, shared by all sessions: each takes the lock once, when it ends.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<Totals>);

impl Ledger {
    /// Adds a session: what each node did, and how many packets each stream had.
    pub(crate) fn add(
        &self,
        nodes: impl ExactSizeIterator<Item = NodeTotals>,
        packets: impl ExactSizeIterator<Item = u64>,
    ) {
        let mut totals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        totals.sessions += 1;
        totals.nodes.resize(nodes.len(), NodeTotals::default());
        totals.packets.resize(packets.len(), 0);
        for (total, node) in totals.nodes.iter_mut().zip(nodes) {
            total.calls += node.calls;
            total.errors += node.errors;
            total.busy += node.busy;
        }
        for (total, packets) in totals.packets.iter_mut().zip(packets) {
            *total += packets;
        }
    }

    pub(crate) fn read(&self) -> Totals {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
