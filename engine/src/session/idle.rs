//! When nothing is ready: sources run, full queues that block themselves are found, and the end is recognized.

use crate::{
    error::{Error, Kind},
    plan::Producer,
    policy::Readiness,
};

use super::{
    calls::Call,
    running::{Frame, Running, Status},
};

/// What a session that has nothing ready does next.
pub(super) enum Idle {
    /// Something became ready.
    Again,
    /// Something outside has to happen first.
    Waiting,
    /// All is done.
    Finished,
}

impl Running {
    pub(super) fn idle(&mut self, frame: Frame<'_>) -> Idle {
        if self.unopened > 0 && std::mem::take(&mut self.sides_changed) {
            self.open_nodes(frame);
            return Idle::Again;
        }
        if let Some(source) = self.next_source(frame) {
            let call = if self.stopping {
                Call::Close
            } else {
                Call::Source
            };
            self.call(frame, source, call);
            return Idle::Again;
        }
        if self.busy > 0 {
            return Idle::Waiting;
        }
        if self.grow(frame) {
            return Idle::Again;
        }
        if self.open_inputs > 0 {
            return Idle::Waiting;
        }
        let waits = |node: &super::running::NodeState| {
            node.status == Status::Open && (node.holds > 0 || !node.events.is_empty())
        };
        let may_go_on = (0..self.nodes.len())
            .any(|node| waits(&self.nodes[node]) || self.is_blocked(frame, node));
        if may_go_on {
            return Idle::Waiting;
        }
        if self.never_starts(frame) {
            return Idle::Again;
        }
        Idle::Finished
    }

    /// Reports a source that waits for one of a lower layer, which never opens.
    fn never_starts(&mut self, frame: Frame<'_>) -> bool {
        let sources = || frame.plan.sources.iter().map(|&node| usize::from(node));
        let waiting = sources().find(|&node| self.nodes[node].status == Status::Open);
        let lower = sources().find(|&node| self.nodes[node].status == Status::Unopened);
        let (Some(waiting), Some(lower)) = (waiting, lower) else {
            return false;
        };
        let lower = &frame.plan.nodes[lower];
        let error = Error::precondition(format!(
            "deadlock: the source never starts, because source `{}` of the lower layer {} never opens",
            lower.name, lower.layer
        ));
        self.fail(frame, waiting, error);
        true
    }

    /// The source to call: of the lowest layer that is not done, the one that lags most, of equals the first.
    fn next_source(&self, frame: Frame<'_>) -> Option<usize> {
        let sources = frame.plan.sources.iter().map(|&node| usize::from(node));
        let open = sources.filter(|&node| self.nodes[node].status != Status::Closed);
        let layer = open
            .clone()
            .map(|node| frame.plan.nodes[node].layer)
            .min()?;
        let due = open.filter(|&node| {
            let state = &self.nodes[node];
            frame.plan.nodes[node].layer == layer
                && state.status == Status::Open
                && state.full_edges == 0
        });
        due.min_by_key(|&node| {
            let outputs = &frame.plan.outputs[frame.plan.nodes[node].outputs.clone()];
            outputs
                .iter()
                .map(|&stream| self.streams[stream as usize].bound)
                .min()
        })
    }

    /// Whether a node would run if no queue that it feeds were full.
    pub(super) fn is_blocked(&self, frame: Frame<'_>, node: usize) -> bool {
        let (plan, state) = (&frame.plan.nodes[node], &self.nodes[node]);
        if state.status != Status::Open || state.full_edges == 0 {
            return false;
        }
        plan.is_source()
            || !state.events.is_empty()
            || (!plan.inputs.is_empty()
                && !matches!(
                    state.readiness(&self.queues[plan.inputs.clone()]),
                    Readiness::Waiting(_)
                ))
    }

    /// A full queue whose consumer waits for another stream never empties by itself. Lets it take one more packet, or, if
    /// the graph wants that, reports it. True if a node can go on.
    fn grow(&mut self, frame: Frame<'_>) -> bool {
        if self.full_queues == 0 {
            return false;
        }
        let mut grown = false;
        for input in 0..self.queues.len() {
            let plan_input = &frame.plan.inputs[input];
            let consumer = usize::from(plan_input.node);
            if !self.limits[input].full || !self.is_waiting(frame, consumer) {
                continue;
            }
            let producer = frame.plan.streams[plan_input.stream as usize].producer;
            let by_node = match producer {
                Producer::Graph(_) => false,
                // Its producer is not held up yet, but would be by the next packet from outside.
                Producer::Node(_) if frame.plan.report_deadlock && self.open_inputs > 0 => true,
                Producer::Node(node) => {
                    if !self.is_blocked(frame, usize::from(node))
                        || self.is_held_elsewhere(usize::from(node))
                    {
                        continue;
                    }
                    true
                }
            };
            if frame.plan.report_deadlock {
                let error = self.deadlock(frame, input);
                self.fail(frame, consumer, error);
                return true;
            }
            self.limits[input].limit = self.queues[input].len() + 1;
            self.refresh(frame, input);
            grown |= by_node;
            let limit = self.limits[input].limit;
            if limit.is_multiple_of(100) {
                let stream = &*frame.plan.streams[plan_input.stream as usize].name;
                let node = &*frame.plan.nodes[consumer].name;
                tracing::warn!(
                    stream,
                    node,
                    limit,
                    "a full queue blocked its graph; its limit was raised"
                );
            }
        }
        grown
    }

    fn is_waiting(&self, frame: Frame<'_>, node: usize) -> bool {
        let state = &self.nodes[node];
        let queues = &self.queues[frame.plan.nodes[node].inputs.clone()];
        state.status == Status::Unopened
            || (state.status == Status::Open
                && matches!(state.readiness(queues), Readiness::Waiting(_)))
    }

    /// Whether a node other than `node` may still be called from outside.
    fn is_held_elsewhere(&self, node: usize) -> bool {
        let mut others = self
            .nodes
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != node);
        others.any(|(_, state)| state.status == Status::Open && state.holds > 0)
    }

    fn deadlock(&self, frame: Frame<'_>, input: usize) -> Error {
        let stream = &frame.plan.streams[frame.plan.inputs[input].stream as usize].name;
        Error::new(
            Kind::Unavailable,
            format!(
                "deadlock: the queue of stream `{stream}` is full with {} packets, the node waits for another of its streams, \
                 and nothing else can run; raise `max_queue_size`, or leave out `report_deadlock`",
                self.queues[input].len()
            ),
        )
    }
}
