//! The way from a wait to its root cause, node by node.

use std::time::Duration;

use crate::{input::InputQueue, plan::Plan, timestamp::Timestamp};

use super::{
    node::Status,
    node_wait::WaitQuery,
    running::Running,
    why::{OpenInput, Reason, Wait, Why},
};

impl Running {
    /// Describes the session's current wait.
    pub(super) fn why(&self, plan: &Plan) -> Why {
        if self.nodes.len() < plan.nodes.len() {
            return Why::ended();
        }
        let waits = WaitGraph {
            plan,
            running: self,
        };
        let open = plan.graph_inputs.iter().filter_map(|port| {
            let stream = &self.streams[port.stream as usize];
            (!stream.closed).then(|| OpenInput {
                stream: port.name.to_string(),
                bound: stream.bound,
            })
        });
        Why {
            ended: false,
            chains: waits.chains(),
            nodes: waits.nodes(),
            open_inputs: open.collect(),
        }
    }
}

/// A session that stands still while it is examined.
#[derive(Copy, Clone)]
pub(super) struct WaitGraph<'a> {
    pub(super) plan: &'a Plan,
    pub(super) running: &'a Running,
}

impl<'a> WaitGraph<'a> {
    /// Returns the queues of a node.
    pub(super) fn queues(self, node: usize) -> &'a [InputQueue] {
        let inputs = &self.plan.nodes[node].inputs;
        self.running.queues.node_queues(inputs)
    }

    /// Returns the waits of all nodes that are not closed.
    fn nodes(self) -> Vec<Wait> {
        let is_open = |&node: &usize| self.running.nodes[node].status != Status::Closed;
        let open = (0..self.plan.nodes.len()).filter(is_open);
        let waits = open.map(|node| self.wait(node, self.find(node, WaitQuery::Itself).reason));
        waits.collect()
    }

    /// Returns the chains from nodes that cannot continue to the root causes, each root once.
    fn chains(self) -> Vec<Vec<Wait>> {
        let mut chains: Vec<Vec<Wait>> = Vec::new();
        let all = 0..self.plan.nodes.len();
        // Nodes with work go first. A call in progress starts a chain only if no other chain
        // contains its node.
        let mut starts = Vec::new();
        for node in all.clone().filter(|&node| self.is_held_up(node)) {
            starts.push((node, WaitQuery::Itself));
            if self.first(node).is_some() && self.outside(node).is_some() {
                starts.push((node, WaitQuery::Packets));
            }
        }
        let away = all.filter(|&node| self.is_away(node));
        starts.extend(away.map(|node| (node, WaitQuery::Itself)));
        for (start, asked) in starts {
            let name = self.name(start);
            let mut seen = chains.iter().flatten();
            if matches!(asked, WaitQuery::Itself)
                && self.is_away(start)
                && seen.any(|wait| wait.node == name)
            {
                continue;
            }
            let chain = self.chain(start, asked);
            let known = |other: &Vec<Wait>| matches!((other.last(), chain.last()), (Some(one), Some(other)) if same_root(one, other));
            if !chains.iter().any(known) {
                chains.push(chain);
            }
        }
        chains
    }

    /// Returns `true` if a node has something to do but cannot do it.
    fn is_held_up(self, node: usize) -> bool {
        let (plan, state) = (&self.plan.nodes[node], &self.running.nodes[node]);
        match state.status {
            Status::Unopened => true,
            Status::Open if !state.has_room() => self.would_run(node),
            Status::Open => plan.is_source() || self.first(node).is_some(),
            Status::Busy | Status::Closed => false,
        }
    }

    fn is_away(self, node: usize) -> bool {
        let state = &self.running.nodes[node];
        state.is_away() || (state.status == Status::Open && state.is_held())
    }

    fn chain(self, start: usize, mut asked: WaitQuery) -> Vec<Wait> {
        let mut chain = Vec::new();
        let mut path: Vec<(usize, Option<usize>)> = Vec::new();
        let mut node = start;
        loop {
            if let Some(at) = path.iter().position(|(seen, _)| *seen == node) {
                // Packets from outside enter the loop, too, if it has room for them.
                let has_room = self.running.nodes[node].has_room();
                let outside = has_room.then(|| self.outside(node)).flatten();
                let reason = outside.unwrap_or_else(|| self.around(&path[at..]));
                chain.push(self.wait(node, reason));
                return chain;
            }
            let found = self.find(node, asked);
            chain.push(self.wait(node, found.reason));
            path.push((node, found.input));
            let Some(next) = found.next else {
                return chain;
            };
            asked = match (found.input, found.side) {
                (Some(input), _) => {
                    let stream = self.plan.inputs[input].stream as usize;
                    // A node without packets of its own passes on the timestamp that the node
                    // before it needs.
                    let passed_on = match asked {
                        WaitQuery::Stream(_, needed) => needed,
                        WaitQuery::Itself | WaitQuery::Packets | WaitQuery::Side(_) => None,
                    };
                    WaitQuery::Stream(stream, self.first(node).or(passed_on))
                }
                (None, Some(side)) => WaitQuery::Side(side),
                (None, None) => WaitQuery::Itself,
            };
            node = next;
        }
    }

    /// Returns the reason of a node that waits for itself.
    fn around(self, path: &[(usize, Option<usize>)]) -> Reason {
        let behind = path.iter().filter(|(node, _)| self.first(*node).is_some());
        let mut behind = behind.filter_map(|(_, input)| Some(&self.plan.inputs[(*input)?]));
        let closing = behind.find(|input| input.back_edge);
        Reason::Itself {
            nodes: path.iter().map(|(node, _)| self.name(*node)).collect(),
            back_edge: closing.map(|input| self.stream(input.stream)),
        }
    }

    fn wait(self, node: usize, reason: Reason) -> Wait {
        let state = &self.running.nodes[node];
        let since: Option<Duration> = state.since.map(|since| since.elapsed());
        Wait {
            node: self.name(node),
            packets: self.queues(node).iter().map(InputQueue::len).sum(),
            first: self.first(node),
            since,
            reason,
        }
    }

    pub(super) fn name(self, node: usize) -> String {
        self.plan.nodes[node].name.to_string()
    }

    pub(super) fn stream(self, stream: u32) -> String {
        self.plan.streams[stream as usize].name.to_string()
    }

    /// Returns the timestamp of the first packet in a node's queues.
    pub(super) fn first(self, node: usize) -> Option<Timestamp> {
        let first = |queue: &InputQueue| queue.times().next();
        self.queues(node).iter().filter_map(first).min()
    }
}

/// Returns `true` if two chains have the same root. Chains around one loop may start at different
/// nodes.
fn same_root(one: &Wait, other: &Wait) -> bool {
    match (&one.reason, &other.reason) {
        (Reason::Itself { nodes: one, .. }, Reason::Itself { nodes: other, .. }) => {
            one.len() == other.len() && one.iter().all(|node| other.contains(node))
        }
        (one_reason, other_reason) => one.node == other.node && one_reason == other_reason,
    }
}
