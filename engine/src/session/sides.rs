//! The side packets of a session: those given at its start, and those set by its nodes.

use std::collections::HashMap;

use crate::{
    error::{Error, Result},
    packet::{Packet, Payload, type_names},
    plan::Plan,
    timestamp::Timestamp,
};

/// Side packets by name, to start a session with.
#[derive(Clone, Debug, Default)]
pub struct SidePackets(HashMap<String, Packet>);

impl SidePackets {
    /// Makes a set without side packets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a side packet with a value of its own.
    #[must_use]
    pub fn with<T: Payload>(self, name: impl Into<String>, value: T) -> Self {
        self.with_packet(name, Packet::side(value))
    }

    /// Adds a side packet with a shared value.
    #[must_use]
    pub fn with_packet(mut self, name: impl Into<String>, packet: Packet) -> Self {
        self.0.insert(name.into(), packet.at(Timestamp::UNSET));
        self
    }

    /// Iterates over the packets and their names, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Packet)> {
        let sides = self.0.iter();
        sides.map(|(name, packet)| (name.as_str(), packet))
    }
}

/// Values by position among the plan's side packets.
pub(super) struct SideValues {
    values: Vec<Option<Packet>>,
    /// Set when a node has set a side packet that others may wait for.
    changed: bool,
}

impl SideValues {
    /// Makes the values at the start. Names that the graph does not use are ignored.
    pub(super) fn given(plan: &Plan, mut given: SidePackets) -> Result<Self> {
        if let Some(name) = &plan.unloaded {
            let message = format!("the resource `{name}` was not loaded with the plan");
            return Err(Error::precondition(message));
        }
        let mut problems = Vec::new();
        let mut values = Vec::with_capacity(plan.sides.len());
        for side in &plan.sides {
            let name = &*side.name;
            let value = given.0.remove(name);
            match &value {
                Some(_) if side.produced => problems.push(format!(
                    "side packet `{name}` is given, but a node of the graph makes it"
                )),
                Some(packet) if !side.takes(packet) => {
                    let (of, wanted) = (packet.type_info(), type_names(&side.check));
                    problems.push(format!(
                        "side packet `{name}` is `{of}`, but the graph takes {wanted}"
                    ));
                }
                None if side.required => {
                    problems.push(format!("side packet `{name}` is required, but not given"));
                }
                Some(_) | None => {}
            }
            values.push(value);
        }
        if problems.is_empty() {
            let changed = false;
            Ok(Self { values, changed })
        } else {
            Err(Error::invalid(problems.join("; ")))
        }
    }

    pub(super) fn get(&self, side: usize) -> Option<&Packet> {
        self.values[side].as_ref()
    }

    /// Sets an output side packet of a node, once.
    pub(super) fn set(&mut self, plan: &Plan, side: usize, packet: Packet) -> Result<&Packet> {
        let (plan, value) = (&plan.sides[side], &mut self.values[side]);
        let name = &plan.name;
        if value.is_some() {
            let message = format!("output side packet `{name}` is already set");
            return Err(Error::precondition(message));
        }
        if !plan.takes(&packet) {
            let of = packet.type_info();
            return Err(Error::invalid(format!(
                "output side packet `{name}` has type `{of}`, which its consumers do not take"
            )));
        }
        self.changed = true;
        Ok(value.insert(packet.at(Timestamp::UNSET)))
    }

    /// Returns `true` if a side packet was set since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}
