//! The life of nodes. Each opens once, after the nodes before it and when its side packets are set,
//! and is closed once.

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
    guard::{CallReason, catch},
    node::Status,
    running::Running,
    shared::Frame,
};

impl Running {
    /// Opens all nodes that can be opened. Nodes are in topological order, so one pass suffices.
    pub(super) fn open_nodes(&mut self, frame: Frame<'_>) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].status != Status::Unopened || self.failed.is_some() {
                continue;
            }
            let mut upstream = frame.plan.nodes[node].upstream.iter();
            if upstream.any(|&before| self.nodes[usize::from(before)].status == Status::Unopened) {
                continue;
            }
            if let Some(sides) = self.side_values(frame, node)
                && let Err(error) = self.open(frame, node, &sides)
            {
                self.fail(frame, node, error);
            }
        }
    }

    /// Returns the values of a node's input side packets; `None` while one of them is not set yet.
    fn side_values(&self, frame: Frame<'_>, node: usize) -> Option<Vec<SideValue>> {
        let sources = &frame.plan.nodes[node].sides;
        // Most nodes have no side packets.
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

    /// Opens another instance of a node for concurrent calls. Its output while opening is
    /// discarded, because the first instance has emitted the same.
    pub(super) fn open_another(&mut self, frame: Frame<'_>, node: usize) -> Result<Instance> {
        let sides = self.side_values(frame, node).unwrap_or_default();
        let mut emits = Emits::default();
        let instance = make(frame, node, &sides, &mut emits)?;
        self.nodes[node].hold(emits.holds);
        Ok(instance)
    }

    /// Lets a node take inputs on arrival, if that is its way, after it has opened or a call has
    /// ended.
    #[inline]
    pub(super) fn resume(&mut self, frame: Frame<'_>, node: usize) {
        if self.nodes[node].intake.resume() {
            self.fill_on_arrival(frame, node);
        }
    }

    /// Sets an output side packet of a node, for readers outside and nodes that wait for it.
    pub(super) fn set_side(&mut self, frame: Frame<'_>, side: usize, packet: Packet) -> Result<()> {
        let set = self.sides.set(frame.plan, side, packet)?;
        frame.shared.lock().sides.push((side, set.clone()));
        Ok(())
    }

    /// Closes a node that is done: closes its outputs and empties its queues.
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
            tracing::debug!(%error, "cannot drop a failed node");
        }
    }

    pub(super) fn stop_sources(&mut self, frame: Frame<'_>) {
        self.nodes.stop_sources();
        for source in 0..self.nodes.len() {
            if self.nodes[source].status == Status::Open && frame.plan.nodes[source].is_source() {
                self.call(frame, source, CallReason::Close);
            }
        }
    }

    /// Closes open nodes at the end of the session, in order, and discards their output. If the
    /// session ends with `error`, nodes can read it, errors of closing are only logged, and calls
    /// in progress are not awaited.
    pub(super) fn close_rest(&mut self, frame: Frame<'_>, error: Option<&Error>) -> Result<()> {
        for node in 0..self.nodes.len() {
            if self.nodes[node].status != Status::Open {
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
            tracing::warn!(request = %frame.shared.run.id, error = %failed, "cannot close a node of a failed session");
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
    catch(|| (frame.plan.nodes[node].factory)(&mut cx))?
}
