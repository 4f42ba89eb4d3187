//! The path of packets and bounds from producers to queues.

use crate::{error::Result, packet::Packet, timestamp::Timestamp};

use super::{
    node::Status,
    running::Running,
    shared::Frame,
    streams::{alone_at_the_end, out_of_order},
};

impl Running {
    /// Puts a packet into a stream and the queues of its consumers.
    #[inline]
    pub(super) fn put(&mut self, frame: Frame<'_>, stream: usize, packet: Packet) -> Result<()> {
        let plan = &frame.plan.streams[stream];
        let state = &mut self.streams[stream];
        let bound = state.admit(plan, &packet)?;
        if state.is_seen() {
            self.show(frame, stream, bound, &packet)?;
        }
        if let Some((last, rest)) = plan.consumers.split_last() {
            for &input in rest {
                self.enqueue(frame, input as usize, packet.clone())?;
            }
            self.enqueue(frame, *last as usize, packet)?;
        }
        Ok(())
    }

    /// Shows a packet to receivers outside the graph. `bound` is the bound of its stream before it.
    fn show(
        &mut self,
        frame: Frame<'_>,
        stream: usize,
        bound: Timestamp,
        packet: &Packet,
    ) -> Result<()> {
        let plan = &frame.plan.streams[stream];
        let state = &mut self.streams[stream];
        if state.watched {
            let is_watched = self.watchers.packet(stream as u32, packet);
            if let Some(recorder) = &mut self.recorder {
                recorder.packet(stream, self.timer.read, packet.time);
            } else {
                state.watched = is_watched;
            }
        }
        if !state.tapped {
            return Ok(());
        }
        let Self { taps, nodes, .. } = self;
        taps.packet((stream as u32, &plan.name), bound, packet, |full| {
            nodes.edge_changed(plan.producer, full);
        })
    }

    /// Returns `true` if a consumer or a receiver outside the graph still takes packets of a
    /// stream.
    pub(super) fn has_takers(&self, frame: Frame<'_>, stream: usize) -> bool {
        let mut consumers = frame.plan.streams[stream].consumers.iter();
        self.streams[stream].tapped
            || consumers.any(|&input| {
                let node = frame.plan.inputs[input as usize].node;
                self.nodes[usize::from(node)].status != Status::Closed
            })
    }

    #[inline]
    fn enqueue(&mut self, frame: Frame<'_>, input: usize, packet: Packet) -> Result<()> {
        let plan_input = &frame.plan.inputs[input];
        let plan = &frame.plan.nodes[usize::from(plan_input.node)];
        let node = &mut self.nodes[usize::from(plan_input.node)];
        if node.status == Status::Closed {
            return Ok(());
        }
        let queue = &mut self.queues[input];
        let was_empty = queue.is_empty();
        queue.add(packet, node.intake.is_timed()).map_err(|bad| {
            let name = &frame.plan.streams[plan_input.stream as usize].name;
            match bad.time {
                Timestamp::POST_STREAM => alone_at_the_end(name),
                time => out_of_order(name, bad.bound, time),
            }
        })?;
        let lags = node.intake.may_wait_for(input - plan.inputs.start);
        let queues = self.queues.node_queues_mut(&plan.inputs);
        if node.intake.arrived(queues) {
            for input in plan.inputs.clone() {
                self.refresh(frame, input);
            }
        } else if self.queues.room(input) == 0 {
            self.refresh(frame, input);
        }
        if (was_empty || plan.batches) && lags {
            self.due(frame, plan_input.node);
        }
        Ok(())
    }

    /// Marks a node to be checked after an arrival.
    #[inline]
    fn due(&mut self, frame: Frame<'_>, node: u16) {
        self.nodes.look_at(node);
        self.fill_on_arrival(frame, usize::from(node));
    }

    /// Moves the bound of a stream forward at the request of its producer.
    pub(super) fn bound(&mut self, frame: Frame<'_>, stream: usize, at: Timestamp) -> Result<()> {
        let state = &self.streams[stream];
        if state.closed {
            return Ok(());
        }
        state.check_bound(&frame.plan.streams[stream].name, at)?;
        self.raise(frame, stream, at)
    }

    /// Moves the bound of a stream forward, unless it is there already.
    #[inline]
    pub(super) fn raise(
        &mut self,
        frame: Frame<'_>,
        stream: usize,
        bound: Timestamp,
    ) -> Result<()> {
        let state = &mut self.streams[stream];
        if !state.raise(bound) {
            return Ok(());
        }
        let tapped = state.tapped;
        for &input in &frame.plan.streams[stream].consumers {
            let number = frame.plan.inputs[input as usize].node;
            let node = &self.nodes[usize::from(number)];
            if node.status == Status::Closed
                || !(node.intake.is_timed() || bound == Timestamp::DONE)
            {
                continue;
            }
            let plan = &frame.plan.nodes[usize::from(number)];
            let lags = node.intake.may_wait_for(input as usize - plan.inputs.start);
            let queue = &mut self.queues[input as usize];
            if queue.advance(bound) && (queue.is_empty() || plan.batches) && lags {
                self.due(frame, number);
            }
        }
        if tapped {
            self.taps.bound(stream as u32, bound)
        } else {
            Ok(())
        }
    }

    pub(super) fn close_stream(&mut self, frame: Frame<'_>, stream: usize) -> Result<()> {
        if !self.streams[stream].close() {
            return Ok(());
        }
        self.raise(frame, stream, Timestamp::DONE)
    }

    /// Fills the input set of a node for the call at `at`.
    #[inline]
    pub(super) fn fill(&mut self, frame: Frame<'_>, node: usize, at: Timestamp) {
        let inputs = &frame.plan.nodes[node].inputs;
        let queues = self.queues.node_queues_mut(inputs);
        if self.nodes[node].intake.fill(at, queues) {
            self.refresh_full(frame, node);
        }
    }

    /// Lets a node that takes its inputs on arrival take them.
    #[inline]
    pub(super) fn fill_on_arrival(&mut self, frame: Frame<'_>, node: usize) {
        let inputs = &frame.plan.nodes[node].inputs;
        let state = &mut self.nodes[node];
        if state.intake.is_on_arrival()
            && state.status == Status::Open
            && !state.is_away()
            && state
                .intake
                .fill_on_arrival(self.queues.node_queues_mut(inputs))
        {
            self.refresh_full(frame, node);
        }
    }

    /// Checks which full queues of a node have room again after packets have left.
    #[inline]
    fn refresh_full(&mut self, frame: Frame<'_>, node: usize) {
        for input in frame.plan.nodes[node].inputs.clone() {
            if self.queues.is_full(input) {
                self.refresh(frame, input);
            }
        }
    }

    /// Updates the record that a queue is full, and informs the node that feeds it.
    pub(super) fn refresh(&mut self, frame: Frame<'_>, input: usize) {
        if let Some(full) = self.queues.refresh(input) {
            let stream = frame.plan.inputs[input].stream;
            let producer = frame.plan.streams[stream as usize].producer;
            self.nodes.edge_changed(producer, full);
        }
    }
}
