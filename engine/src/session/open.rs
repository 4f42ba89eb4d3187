//! Opening: each node once, after the nodes before it, when its side packets are there.

use crate::{
    context::{OpenCx, SideValue},
    emits::Emits,
    error::{Error, Result},
    node::Instance,
    packet::Packet,
    plan::SideSource,
    timestamp::Timestamp,
};

use super::{
    calls::{catch, site},
    running::{Frame, Running, Status},
};

impl Running {
    /// Opens what can be opened. Nodes are in topological order, so one pass suffices.
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

    /// The values of a node's input side packets; none while one of them is still to be made.
    fn side_values(&self, frame: Frame<'_>, node: usize) -> Option<Vec<SideValue>> {
        let sources = &frame.plan.nodes[node].sides;
        // As in most nodes.
        if sources.is_empty() {
            return Some(Vec::new());
        }
        let value = |source: &SideSource| match source {
            SideSource::Resource(resource) => Some(SideValue::Resource(resource.clone())),
            SideSource::Unloaded => Some(SideValue::Absent),
            SideSource::Packet(side) => match &self.sides[*side as usize] {
                Some(packet) => Some(SideValue::Packet(packet.clone())),
                None if frame.plan.sides[*side as usize].produced => None,
                None => Some(SideValue::Absent),
            },
        };
        sources.iter().map(value).collect()
    }

    fn open(&mut self, frame: Frame<'_>, node: usize, sides: &[SideValue]) -> Result<()> {
        let mut emits = std::mem::take(&mut self.emits);
        emits.start(Timestamp::UNSTARTED);
        let factory = &frame.plan.nodes[node].factory;
        let mut cx = OpenCx {
            site: site(frame, node),
            sides,
            out: &mut emits,
        };
        let instance = catch(|| factory.open(&mut cx))?;
        let state = &mut self.nodes[node];
        state.instance = Some(instance);
        state.status = Status::Open;
        state.holds += emits.holds as i32;
        self.unopened -= 1;
        self.ready.insert(node as u16);
        for emission in emits.list.drain(..) {
            self.emitted(frame, node, emission)?;
        }
        self.emits = emits;
        self.resume(frame, node);
        Ok(())
    }

    /// Another instance of a node that is open, for calls at the same time. What it emits while it opens the first one has
    /// emitted.
    pub(super) fn open_another(&mut self, frame: Frame<'_>, node: usize) -> Result<Instance> {
        let sides = self.side_values(frame, node).unwrap_or_default();
        let mut emits = Emits::default();
        emits.start(Timestamp::UNSTARTED);
        let mut cx = OpenCx {
            site: site(frame, node),
            sides: &sides,
            out: &mut emits,
        };
        let instance = catch(|| frame.plan.nodes[node].factory.open(&mut cx))?;
        self.nodes[node].holds += emits.holds as i32;
        Ok(instance)
    }

    /// Sets an output side packet of a node, and opens the nodes that waited for it.
    pub(super) fn set_side(&mut self, frame: Frame<'_>, side: usize, packet: Packet) -> Result<()> {
        let plan = &frame.plan.sides[side];
        if self.sides[side].is_some() {
            return Err(Error::precondition(format!(
                "output side packet `{}` is already set",
                plan.name
            )));
        }
        if !plan.check.is_empty() && !plan.check.contains(&packet.type_info()) {
            let message = format!(
                "output side packet `{}` is `{}`, which its consumers do not take",
                plan.name,
                packet.type_info()
            );
            return Err(Error::invalid(message));
        }
        let mut packet = packet;
        packet.time = Timestamp::UNSET;
        frame.shared.lock().sides.push((side, packet.clone()));
        self.sides[side] = Some(packet);
        self.sides_changed = true;
        Ok(())
    }
}
