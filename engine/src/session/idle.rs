//! Work of a session when no node is ready: it calls a source, resolves a deadlock of full queues,
//! or detects the end.

use crate::{error::Error, plan::Producer, policy::Readiness};

use super::{
    node::Status,
    running::{Idle, Running},
    shared::Frame,
};

impl Running {
    pub(super) fn idle(&mut self, frame: Frame<'_>) -> Idle {
        if self.nodes.any_unopened() && self.sides.take_changed() {
            self.open_nodes(frame);
            return Idle::Again;
        }
        if let Some(source) = self.next_source(frame) {
            self.call(frame, source, self.nodes.source_call());
            return Idle::Again;
        }
        if self.in_flight.calls > 0 {
            return Idle::Waiting;
        }
        if self.grow(frame) {
            return Idle::Again;
        }
        if self.open_inputs > 0 {
            return Idle::Waiting;
        }
        let may_go_on = |node: usize| {
            let state = &self.nodes[node];
            let waits = state.is_held() || state.has_events();
            (state.status == Status::Open && waits) || self.is_blocked(frame, node)
        };
        if (0..self.nodes.len()).any(may_go_on) {
            return Idle::Waiting;
        }
        if self.never_starts(frame) || self.stays_paused(frame) {
            return Idle::Again;
        }
        Idle::Finished
    }

    /// Reports a source that waits for a source of a lower layer that never opens.
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

    /// Reports packets that a node cannot take any more, because it has paused their stream and
    /// will not be called again.
    fn stays_paused(&mut self, frame: Frame<'_>) -> bool {
        let mut inputs = frame.plan.inputs.iter().enumerate();
        let paused = inputs.find(|&(input, plan)| {
            let node = &self.nodes[usize::from(plan.node)];
            node.status == Status::Open && self.queues[input].holds_paused()
        });
        let Some((input, plan)) = paused else {
            return false;
        };
        let queue = &self.queues[input];
        let stream = &frame.plan.streams[plan.stream as usize].name;
        let packets = match queue.len() {
            1 => "1 packet waits".to_owned(),
            many => format!("{many} packets wait"),
        };
        let error = Error::precondition(format!(
            "deadlock: the node has paused stream `{stream}`, on which {packets}, the first at {}, and nothing can come \
             after which it would take them",
            queue.bound()
        ));
        self.fail(frame, usize::from(plan.node), error);
        true
    }

    /// Returns the source to call: in the lowest layer with sources that are not closed, the one
    /// whose output lags most. Among equals it is the first.
    fn next_source(&self, frame: Frame<'_>) -> Option<usize> {
        let sources = frame.plan.sources.iter().map(|&node| usize::from(node));
        let open = sources.filter(|&node| self.nodes[node].status != Status::Closed);
        let layers = open.clone().map(|node| frame.plan.nodes[node].layer);
        let layer = layers.min()?;
        let due = open.filter(|&node| {
            let state = &self.nodes[node];
            frame.plan.nodes[node].layer == layer
                && state.status == Status::Open
                && state.has_room()
        });
        due.min_by_key(|&node| {
            let outputs = &frame.plan.outputs[frame.plan.nodes[node].outputs.clone()];
            let bound = |&stream: &u32| self.streams[stream as usize].bound;
            outputs.iter().map(bound).min()
        })
    }

    /// Returns `true` if a node could run but for full queues behind its outputs.
    fn is_blocked(&self, frame: Frame<'_>, node: usize) -> bool {
        let (plan, state) = (&frame.plan.nodes[node], &self.nodes[node]);
        state.status == Status::Open
            && !state.has_room()
            && state.would_run(plan, self.queues.node_queues(&plan.inputs))
    }

    /// Resolves deadlocks of full queues. Such a queue never empties, because its consumer waits
    /// for another stream. It gets room for one more packet, or, with `report_deadlock`, the
    /// session fails. Returns `true` if a node can continue or the session has failed.
    fn grow(&mut self, frame: Frame<'_>) -> bool {
        if !self.queues.any_full() {
            return false;
        }
        let mut grown = false;
        for input in 0..frame.plan.inputs.len() {
            let plan_input = &frame.plan.inputs[input];
            let consumer = usize::from(plan_input.node);
            if !self.queues.is_full(input) || !self.is_waiting(frame, consumer) {
                continue;
            }
            let producer = frame.plan.streams[plan_input.stream as usize].producer;
            let by_node = match producer {
                Producer::Graph(_) => false,
                // The producer can still run, but the next packet from outside would stop it.
                Producer::Node(_) if frame.plan.report_deadlock && self.open_inputs > 0 => true,
                Producer::Node(node) => {
                    if !self.is_blocked(frame, usize::from(node))
                        || self.nodes.held().any(|other| other != usize::from(node))
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
            let limit = self.queues.raise_limit(input);
            self.refresh(frame, input);
            grown |= by_node;
            if limit.is_multiple_of(100) {
                let stream = &*frame.plan.streams[plan_input.stream as usize].name;
                let node = &*frame.plan.nodes[consumer].name;
                tracing::warn!(
                    stream,
                    node,
                    limit,
                    "raised the limit of a full queue that blocked its graph"
                );
            }
        }
        grown
    }

    fn is_waiting(&self, frame: Frame<'_>, node: usize) -> bool {
        let state = &self.nodes[node];
        let queues = self.queues.node_queues(&frame.plan.nodes[node].inputs);
        match state.status {
            Status::Unopened => true,
            Status::Open => matches!(state.intake.readiness(queues), Readiness::Waiting(_)),
            Status::Busy | Status::Closed => false,
        }
    }

    fn deadlock(&self, frame: Frame<'_>, input: usize) -> Error {
        let stream = &frame.plan.streams[frame.plan.inputs[input].stream as usize].name;
        Error::unavailable(format!(
            "deadlock: the queue of stream `{stream}` is full with {} packets, the node waits for another of its streams, \
                 and nothing else can run; raise `max_queue_size`, or leave out `report_deadlock`",
            self.queues[input].len()
        ))
    }
}
