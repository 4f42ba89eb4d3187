//! What a session did, for logs and metrics.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::plan::Plan;

/// The counts of one session.
#[derive(Clone, Debug)]
pub struct Summary {
    pub(super) plan: Arc<Plan>,
    pub(super) counts: Arc<[Counts]>,
    /// From the first poll to the end.
    pub elapsed: Duration,
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
    /// How often it was called: `process` and `close`.
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
