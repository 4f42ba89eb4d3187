//! Totals of a plan's ended sessions.

use std::{sync::Mutex, time::Duration};

use crate::lock::lock;

/// Sums over the ended sessions of a plan.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Number of sessions that have ended.
    pub sessions: u64,
    /// Totals of each node, in the order of the plan. Empty before the first session has ended.
    pub nodes: Vec<NodeTotals>,
    /// Number of packets of each stream, in the order of the plan. Empty before the first session
    /// has ended.
    pub packets: Vec<u64>,
}

/// Totals of one node over all ended sessions.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeTotals {
    /// Number of calls: `process` and `close`.
    pub calls: u64,
    /// Number of sessions in which the node failed.
    pub errors: u64,
    /// Total duration of the calls.
    pub busy: Duration,
}

/// Totals shared by all sessions. Each session locks them once, when it ends.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<Totals>);

impl Ledger {
    /// Adds the counts of a session: its nodes' calls and its streams' packets.
    pub(crate) fn add(
        &self,
        nodes: impl ExactSizeIterator<Item = NodeTotals>,
        packets: impl ExactSizeIterator<Item = u64>,
    ) {
        let mut totals = lock(&self.0);
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
        lock(&self.0).clone()
    }
}
