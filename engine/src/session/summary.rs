//! What a session did, for logs and metrics.

use std::{sync::Arc, time::Duration};

use crate::plan::Plan;

/// The counts of one session.
#[derive(Clone, Debug)]
pub struct Summary {
    pub(super) plan: Arc<Plan>,
    pub(super) counts: Arc<[(u64, Duration)]>,
    /// From the first poll to the end.
    pub elapsed: Duration,
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
}

impl Summary {
    /// The nodes, in the order of the plan.
    pub fn nodes(&self) -> impl Iterator<Item = NodeSummary<'_>> {
        let counts = self.counts.iter();
        self.plan
            .nodes
            .iter()
            .zip(counts)
            .map(|(node, &(runs, time))| NodeSummary {
                name: &node.name,
                runs,
                time,
            })
    }
}
