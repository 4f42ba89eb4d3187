//! What a session did, for logs and metrics.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{plan::Plan, timestamp::Timestamp};

/// The counts of one session.
#[derive(Clone, Debug)]
pub struct Summary {
    pub(super) plan: Arc<Plan>,
    pub(super) counts: Arc<[Counts]>,
    /// Packets left in queues at the end.
    pub(super) held: Arc<[Held]>,
    /// From the first poll to the end.
    pub elapsed: Duration,
}

/// Packets that waited for a node.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) node: Arc<str>,
    pub(super) stream: Arc<str>,
    pub(super) packets: usize,
    pub(super) first: Timestamp,
}

/// What a node counts of its calls.
#[derive(Copy, Clone, Debug)]
pub(super) struct Counts {
    pub(super) runs: u64,
    pub(super) time: Duration,
    /// When its first call began and its last one ended.
    pub(super) called: Option<(Instant, Instant)>,
}

/// The counts of one node.
#[derive(Copy, Clone, Debug)]
pub struct NodeSummary<'a> {
    /// Its name.
    pub name: &'a str,
    /// How often it was called: `process` and `close`. A call that goes on when the session ends is
    /// one of them.
    pub runs: u64,
    /// The time its calls took. An inline call is charged with the session's own work around it; of
    /// the calls after the sixteenth, one in sixteen is measured and stands for the others.
    pub time: Duration,
    /// When its first call began and its last one ended, or the poll of the session in which that
    /// was; none if it was not called.
    pub called: Option<(Instant, Instant)>,
}

impl Summary {
    /// The plan that the session ran.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Describes where a session that put out too little left its packets: which nodes held what,
    /// and which got nothing.
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
            return "every node was called, and none put out a packet for it".to_owned();
        }
        left.join(", ")
    }

    /// The nodes, in the order of the plan.
    pub fn nodes(&self) -> impl Iterator<Item = NodeSummary<'_>> {
        let counts = self.counts.iter();
        self.plan
            .nodes
            .iter()
            .zip(counts)
            .map(|(node, counts)| NodeSummary {
                name: &node.name,
                runs: counts.runs,
                time: counts.time,
                called: counts.called,
            })
    }
}
