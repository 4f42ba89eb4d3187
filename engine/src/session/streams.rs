//! Packets and bounds on their way from producers to queues.

use crate::{
    error::{Error, Result},
    input::illegal_time,
    packet::Packet,
    timestamp::Timestamp,
};

use super::{
    intake::Intake,
    running::{ANY, Frame, NodeState, Running, Status, TapTo},
};

/// Whether a change of input `input` of a node may make it due.
#[inline]
fn concerns(node: &NodeState, input: usize) -> bool {
    node.laggard == ANY || usize::from(node.laggard) == input
}

impl Running {
    /// Puts a packet into a stream.
    #[inline]
    pub(super) fn put(&mut self, frame: Frame<'_>, stream: usize, packet: Packet) -> Result<()> {
        let plan = &frame.plan.streams[stream];
        let state = &mut self.streams[stream];
        let time = packet.time;
        if state.closed {
            return Err(Error::precondition(format!(
                "a packet was sent to the closed stream `{}`",
                plan.name
            )));
        }
        if !time.is_allowed_in_stream() {
            return Err(illegal_time(&plan.name, time));
        }
        plan.check_type(&packet)?;
        let bound = state.bound;
        state.bound = bound.max(time.next());
        if state.tapped {
            self.tapped(frame, stream, bound, &packet)?;
        }
        if let Some((last, rest)) = plan.consumers.split_last() {
            for &input in rest {
                self.enqueue(frame, input as usize, packet.clone())?;
            }
            self.enqueue(frame, *last as usize, packet)?;
        }
        Ok(())
    }

    /// Whether anybody still takes packets of a stream.
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
        let number = plan_input.node;
        let node = &mut self.nodes[usize::from(number)];
        if node.status == Status::Closed {
            return Ok(());
        }
        let queue = &mut self.queues[input];
        let was_empty = queue.is_empty();
        queue.add(packet, node.timed).map_err(|bad| {
            let name = &frame.plan.streams[plan_input.stream as usize].name;
            if bad.time == Timestamp::POST_STREAM {
                alone_at_the_end(name)
            } else {
                Error::invalid(format!(
                    "timestamps of stream `{name}` have to ascend: the next packet may be at {} or later, but came at {}",
                    bad.bound, bad.time
                ))
            }
        })?;
        let inputs = &frame.plan.nodes[usize::from(number)].inputs;
        let lags = concerns(node, input - inputs.start);
        if node.policy.arrived(&mut self.queues[inputs.clone()]) {
            inputs.clone().for_each(|input| self.refresh(frame, input));
        } else if self.queues[input].len() >= self.limits[input].limit {
            self.refresh(frame, input);
        }
        let batches = frame.plan.nodes[usize::from(number)].batches;
        if (was_empty || batches) && lags {
            self.due(frame, number);
        }
        Ok(())
    }

    /// Notes that a node may be due, now that something has arrived.
    #[inline]
    fn due(&mut self, frame: Frame<'_>, node: u16) {
        self.ready.insert(node);
        if self.nodes[usize::from(node)].intake == Intake::OnArrival {
            self.take(frame, usize::from(node));
        }
    }

    /// Moves the bound of a stream forward, as its producer asks for it.
    pub(super) fn bound(&mut self, frame: Frame<'_>, stream: usize, at: Timestamp) -> Result<()> {
        let (name, state) = (&frame.plan.streams[stream].name, &self.streams[stream]);
        if state.closed {
            return Ok(());
        }
        if !at.is_allowed_in_stream() && at != Timestamp::ONE_OVER_POST_STREAM {
            return Err(Error::invalid(format!(
                "`{at}` cannot be the bound of stream `{name}`"
            )));
        }
        if at < state.bound {
            return Err(Error::invalid(format!(
                "the bound of stream `{name}` cannot go back from {} to {at}",
                state.bound
            )));
        }
        self.raise(frame, stream, at)
    }

    /// Moves the bound of a stream forward, if it is not there yet.
    #[inline]
    pub(super) fn raise(
        &mut self,
        frame: Frame<'_>,
        stream: usize,
        bound: Timestamp,
    ) -> Result<()> {
        let state = &mut self.streams[stream];
        if bound <= state.bound {
            return Ok(());
        }
        state.bound = bound;
        let tapped = state.tapped;
        for &input in &frame.plan.streams[stream].consumers {
            let number = frame.plan.inputs[input as usize].node;
            let node = &self.nodes[usize::from(number)];
            if node.status == Status::Closed || !(node.timed || bound == Timestamp::DONE) {
                continue;
            }
            let first = frame.plan.nodes[usize::from(number)].inputs.start;
            let lags = concerns(node, input as usize - first);
            let queue = &mut self.queues[input as usize];
            let batches = frame.plan.nodes[usize::from(number)].batches;
            if queue.advance(bound) && (queue.is_empty() || batches) && lags {
                self.due(frame, number);
            }
        }
        if tapped {
            self.tapped_bound(stream, bound)
        } else {
            Ok(())
        }
    }

    pub(super) fn close_stream(&mut self, frame: Frame<'_>, stream: usize) -> Result<()> {
        if std::mem::replace(&mut self.streams[stream].closed, true) {
            return Ok(());
        }
        self.raise(frame, stream, Timestamp::DONE)
    }

    /// Gives a packet to those outside who look at its stream.
    fn tapped(
        &mut self,
        frame: Frame<'_>,
        stream: usize,
        bound: Timestamp,
        packet: &Packet,
    ) -> Result<()> {
        if packet.time < bound {
            return Err(Error::invalid(format!(
                "timestamps of stream `{}` have to ascend: the next packet may be at {bound} or later, but came at {}",
                frame.plan.streams[stream].name, packet.time
            )));
        }
        for at in 0..self.taps.len() {
            let tap = &mut self.taps[at];
            if tap.stream as usize != stream {
                continue;
            }
            if packet.time == Timestamp::POST_STREAM && tap.begun {
                return Err(alone_at_the_end(&frame.plan.streams[stream].name));
            }
            tap.begun = true;
            tap.last = packet.time;
            match &mut tap.to {
                TapTo::Observer { bounds, observer } => {
                    observer(packet.time, Some(packet))?;
                    // After a packet at PreStream nothing can come, so the whole stream is settled.
                    let settled = packet.time.next().prev();
                    if *bounds && settled > packet.time {
                        tap.last = settled;
                        observer(settled, None)?;
                    }
                }
                TapTo::Output {
                    abandoned: true, ..
                } => {}
                TapTo::Output { local, .. } => {
                    local.push(packet.clone());
                    self.refresh_tap(frame, at);
                }
            }
        }
        Ok(())
    }

    fn tapped_bound(&mut self, stream: usize, bound: Timestamp) -> Result<()> {
        if bound == Timestamp::DONE {
            return Ok(());
        }
        let settled = if bound == Timestamp::POST_STREAM {
            bound
        } else {
            bound.prev()
        };
        for tap in &mut self.taps {
            if let TapTo::Observer {
                bounds: true,
                observer,
            } = &mut tap.to
                && tap.stream as usize == stream
                && tap.last < settled
            {
                tap.last = settled;
                observer(settled, None)?;
            }
        }
        Ok(())
    }
}

fn alone_at_the_end(stream: &str) -> Error {
    Error::invalid(format!(
        "a packet at PostStream has to be the only one of stream `{stream}`"
    ))
}
