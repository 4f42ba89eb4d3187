//! Views of a session.

use crate::{
    plan::{Plan, PlanNode},
    policy::Readiness,
};

use super::{
    node::{NodeState, Status},
    running::Running,
    snapshot::{Activity, EdgeSnapshot, NodeSnapshot, Snapshot},
};

impl Running {
    /// Makes a view of the session; `None` once it has ended.
    pub(super) fn snapshot(&self, plan: &Plan) -> Option<Snapshot> {
        if self.nodes.len() < plan.nodes.len() {
            return None;
        }
        let nodes = plan.nodes.iter().zip(self.nodes.iter());
        let nodes = nodes.map(|(node, state)| {
            let counts = state.counts();
            NodeSnapshot {
                activity: self.activity(plan, node, state),
                calls: counts.runs,
                busy: counts.time,
            }
        });
        let edges = plan.inputs.iter().enumerate();
        let edges = edges.map(|(input, edge)| EdgeSnapshot {
            queued: self.queues[input].len(),
            bound: self.queues.bound(input),
            packets: self.streams[edge.stream as usize].packets,
        });
        Some(Snapshot {
            nodes: nodes.collect(),
            edges: edges.collect(),
        })
    }

    fn activity(&self, plan: &Plan, node: &PlanNode, state: &NodeState) -> Activity {
        let queues = self.queues.node_queues(&node.inputs);
        match state.status {
            Status::Unopened => Activity::Waiting,
            Status::Closed => Activity::Closed,
            Status::Open | Status::Busy if state.is_away() => Activity::Running,
            Status::Open if !state.has_room() && state.would_run(node, queues) => Activity::Blocked,
            Status::Open if node.is_source() && self.lower_source(plan, node.layer).is_some() => {
                Activity::Waiting
            }
            Status::Open if state.would_run(node, queues) => {
                let closes = !node.inputs.is_empty()
                    && !state.has_events()
                    && state.intake.readiness(queues) == Readiness::Close;
                if closes && state.is_held() {
                    Activity::Waiting
                } else {
                    Activity::Ready
                }
            }
            Status::Open if state.is_held() || queues.iter().any(|queue| !queue.is_empty()) => {
                Activity::Waiting
            }
            Status::Open => Activity::Idle,
            Status::Busy => Activity::Ready,
        }
    }

    /// Returns the first source of a lower layer that is still open.
    pub(super) fn lower_source(&self, plan: &Plan, layer: i32) -> Option<usize> {
        let mut sources = plan.sources.iter().map(|&source| usize::from(source));
        sources.find(|&source| {
            plan.nodes[source].layer < layer && self.nodes[source].status != Status::Closed
        })
    }
}
