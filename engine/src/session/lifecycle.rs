//! The life of nodes: each opens once, after the nodes before it and when its side packets are
//! there, and is closed once.

use crate::{
    calculator::erased::Instance,
    context::{OpenCx, SideValue},
    emits::Emits,
    error::{Error, Result},
    packet::Packet,
    plan::SideSource,
    timestamp::Timestamp,
};

use super::{
    guard::{Call, catch},
    node::Status,
    running::Running,
    shared::Frame,
};

impl Running {
    /// Opens what can be opened. Nodes are in topological order, so one pass suffices.
    pub(super) fn open_nodes(&mut self, frame: Frame<'_>) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].status() != Status::Unopened || self.has_failed() {
                continue;
            }
            let mut upstream = frame.plan.nodes[node].upstream.iter();
            if upstream.any(|&before| self.nodes[usize::from(before)].status() == Status::Unopened)
            {
                continue;
            }
            if let Some(sides) = self.side_values(frame, node)
                && let Err(error) = self.open(frame, node, &sides)
            {
                self.fail(frame, node, error);
            }
        }
    }

    /// The values of a node's input side packets; none while one of them is still to be made.
    fn side_values(&self, frame: Frame<'_>, node: usize) -> Option<Vec<SideValue>> {
        let sources = &frame.plan.nodes[node].sides;
        // Most nodes have none.
        if sources.is_empty() {
            return Some(Vec::new());
        }
        let value = |source: &SideSource| match source {
            SideSource::Resource(resource) => Some(SideValue::Resource(resource.clone())),
            SideSource::Unloaded => Some(SideValue::Absent),
            SideSource::Packet(side) => match self.sides.get(*side as usize) {
                Some(packet) => Some(SideValue::Packet(packet.clone())),
                None if frame.plan.sides[*side as usize].produced => None,
                None => Some(SideValue::Absent),
            },
        };
        sources.iter().map(value).collect()
    }

    fn open(&mut self, frame: Frame<'_>, node: usize, sides: &[SideValue]) -> Result<()> {
        let mut emits = std::mem::take(&mut self.emits);
        let instance = make(frame, node, sides, &mut emits)?;
        self.nodes[node].open(instance);
        self.nodes[node].hold(emits.holds);
        self.nodes.opened(node);
        for emission in emits.list.drain(..) {
            self.emitted(frame, node, emission)?;
        }
        self.emits = emits;
        self.resume(frame, node);
        Ok(())
    }

    /// Another instance of a node that is open, for calls at the same time. What it emits while it
    /// opens the first one has emitted.
    pub(super) fn open_another(&mut self, frame: Frame<'_>, node: usize) -> Result<Instance> {
        let sides = self.side_values(frame, node).unwrap_or_default();
        let mut emits = Emits::default();
        let instance = make(frame, node, &sides, &mut emits)?;
        self.nodes[node].hold(emits.holds);
        Ok(instance)
    }

    /// A node has opened, or its call is over: it takes its inputs on arrival again, if it does so
    /// at all.
    #[inline]
    pub(super) fn resume(&mut self, frame: Frame<'_>, node: usize) {
        if self.nodes[node].intake.resume() {
            self.fill_on_arrival(frame, node);
        }
    }

    /// Sets an output side packet of a node, for those outside and the nodes that wait for it.
    pub(super) fn set_side(&mut self, frame: Frame<'_>, side: usize, packet: Packet) -> Result<()> {
        let set = self.sides.set(frame.plan, side, packet)?;
        frame.shared.lock().sides.push((side, set.clone()));
        Ok(())
    }

    /// A node is done: its outputs close and its queues are emptied.
    pub(super) fn closed(&mut self, frame: Frame<'_>, node: usize) {
        let plan = &frame.plan.nodes[node];
        if let Err(error) = self.nodes[node].close() {
            self.fail(frame, node, error);
        }
        for input in plan.inputs.clone() {
            self.queues[input].clear();
            self.refresh(frame, input);
        }
        for &stream in &frame.plan.outputs[plan.outputs.clone()] {
            if let Err(error) = self.close_stream(frame, stream as usize) {
                self.fail(frame, node, error);
            }
        }
    }

    /// Drops a node that must not be called any more.
    pub(super) fn give_up(&mut self, node: usize) {
        if let Err(error) = self.nodes[node].close() {
            tracing::debug!(%error, "a node that failed could not be dropped");
        }
    }

    pub(super) fn stop_sources(&mut self, frame: Frame<'_>) {
        self.nodes.stop_sources();
        for source in 0..self.nodes.len() {
            if self.nodes[source].status() == Status::Open && frame.plan.nodes[source].is_source() {
                self.call(frame, source, Call::Close);
            }
        }
    }

    /// Closes what is open at the end of the session, in order; what is emitted then has nowhere to
    /// go. After `error`, with which the session ends, nodes are told of it, and what goes wrong
    /// while they close changes nothing; nodes that are away on a call are not waited for.
    pub(super) fn close_rest(&mut self, frame: Frame<'_>, error: Option<&Error>) -> Result<()> {
        for node in 0..self.nodes.len() {
            if self.nodes[node].status() != Status::Open {
                continue;
            }
            self.emits.start(Timestamp::ZERO);
            let mut site = frame.site(node);
            site.ended = error;
            let Err(failed) = self.nodes[node].close_at_end(site, &mut self.emits) else {
                continue;
            };
            let failed = failed.at_node(&frame.plan.nodes[node].name);
            if error.is_none() {
                return Err(failed);
            }
            tracing::warn!(request = %frame.shared.run.id, error = %failed, "a node of a failed session could not be closed");
        }
        for stream in &mut self.streams {
            stream.close();
        }
        Ok(())
    }
}

/// Makes an instance of a node.
fn make(frame: Frame<'_>, node: usize, sides: &[SideValue], emits: &mut Emits) -> Result<Instance> {
    emits.start(Timestamp::UNSTARTED);
    let mut cx = OpenCx {
        site: frame.site(node),
        sides,
        out: emits,
    };
    catch(|| (frame.plan.nodes[node].factory)(&mut cx))
}
