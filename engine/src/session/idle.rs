//! When nothing is ready: sources run, full queues that block themselves are found, and the end is recognised.

use crate::{
    error::{Error, Kind},
    plan::Producer,
    policy::Readiness,
};

use super::{
    calls::{Call, catch, site},
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
            self.call(frame, source, Call::Source);
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
            Idle::Waiting
        } else {
            Idle::Finished
        }
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
                    state.policy.readiness(&self.queues[plan.inputs.clone()]),
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
                && matches!(state.policy.readiness(queues), Readiness::Waiting(_)))
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

    /// The end: nodes that are still open are closed in order. What they emit has nowhere to go any more.
    pub(super) fn close_rest(&mut self, frame: Frame<'_>) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].status != Status::Open {
                continue;
            }
            let Some(mut instance) = self.nodes[node].instance.take() else {
                continue;
            };
            let state = &mut self.nodes[node];
            state.status = Status::Closed;
            state.set.set_time(crate::Timestamp::DONE);
            let mut emits = std::mem::take(&mut self.emits);
            emits.start(crate::Timestamp::ZERO);
            let (site, set, out) = (site(frame, node), &mut state.set, &mut emits);
            let closed = catch(|| {
                let mut cx = crate::Cx { site, set, out };
                match &mut instance {
                    crate::node::Instance::Sync(instance) => instance.close(&mut cx),
                    crate::node::Instance::Async(instance) => instance.close(&mut cx),
                }
            });
            self.emits = emits;
            state.runs += 1;
            if let Err(error) = closed {
                return self.fail(frame, node, *error);
            }
        }
        for stream in 0..self.streams.len() {
            self.streams[stream].closed = true;
        }
    }
}
