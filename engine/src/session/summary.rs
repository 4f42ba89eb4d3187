//! Counts of a session, for logs and metrics.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{plan::Plan, timestamp::Timestamp};

/// Counts of one session, by node.
#[derive(Clone, Debug)]
pub struct Summary {
    pub(super) plan: Arc<Plan>,
    pub(super) counts: Arc<[Counts]>,
    /// Packets left in queues at the end.
    pub(super) held: Arc<[HeldPackets]>,
    /// Duration from the first poll to the end.
    pub elapsed: Duration,
}

/// Packets that waited for a node.
#[derive(Clone, Debug)]
pub(super) struct HeldPackets {
    pub(super) node: Arc<str>,
    pub(super) stream: Arc<str>,
    pub(super) packets: usize,
    pub(super) first: Timestamp,
}

/// Counts of a node's calls.
#[derive(Copy, Clone, Debug)]
pub(super) struct Counts {
    pub(super) runs: u64,
    pub(super) time: Duration,
    /// Start of the first call and end of the last one.
    pub(super) called: Option<(Instant, Instant)>,
}

/// Counts of one node in one session.
#[derive(Copy, Clone, Debug)]
pub struct NodeSummary<'a> {
    /// Name of the node in the plan.
    pub name: &'a str,
    /// Number of calls: `process` and `close`. Includes a call in progress at the end of the
    /// session.
    pub runs: u64,
    /// Total duration of the calls. An inline call includes the session's own work around it. After
    /// the sixteenth call, one call in sixteen is measured and counts for sixteen.
    pub time: Duration,
    /// Start of the first call and end of the last one, or start of the poll that contained it.
    /// `None` if the node was not called.
    pub called: Option<(Instant, Instant)>,
}

impl Summary {
    /// Returns the plan that the session ran.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Describes where a session with too little output left its packets: the nodes with unread
    /// packets, and the nodes that got none.
    pub fn left(&self) -> String {
        let held = self.held.iter().map(|held| {
            let packets = match held.packets {
                1 => "1 packet".to_owned(),
                packets => format!("{packets} packets"),
            };
            let (node, stream, first) = (&held.node, &held.stream, held.first);
            format!("`{node}` held {packets} of `{stream}` from {first} on")
        });
        // Such a node was only closed.
        let idle = self.plan.nodes.iter().zip(self.counts.iter());
        let idle = idle.filter(|(node, counts)| !node.inputs.is_empty() && counts.runs <= 1);
        let idle = idle.map(|(node, _)| format!("`{}` got nothing", node.name));
        let left: Vec<String> = held.chain(idle).collect();
        if left.is_empty() {
            return "every node was called, but none emitted a packet for this output".to_owned();
        }
        left.join(", ")
    }

    /// Iterates over the nodes in the order of the plan.
    pub fn nodes(&self) -> impl Iterator<Item = NodeSummary<'_>> {
        let nodes = self.plan.nodes.iter().zip(self.counts.iter());
        nodes.map(|(node, counts)| NodeSummary {
            name: &node.name,
            runs: counts.runs,
            time: counts.time,
            called: counts.called,
        })
    }
}
