//! Messages to a session.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::{
    calculator::Flow,
    calculator::erased::{Answer, Node},
    emits::Emits,
    input::{Event, InputSet},
    packet::Packet,
    timestamp::Timestamp,
};

use super::{timeline::Timeline, view::View, watch::Watcher, why::Why};

/// One thing in the inbox of a session.
pub(super) enum Message {
    /// A packet for a graph input.
    Packet { input: u16, packet: Packet },
    /// No packet before this will come on a graph input.
    Bound { input: u16, at: Timestamp },
    /// Drops `kept` once the nodes have taken all packets up to `at` of a graph input.
    KeepUntilTaken {
        input: u16,
        at: Timestamp,
        kept: Box<dyn Send>,
    },
    /// Nothing will come on a graph input.
    CloseInput { input: u16 },
    /// The graph's sources are to be closed.
    StopSources,
    /// A thing for an event port of a node.
    Event { node: u16, event: Event },
    /// A hold on a node was dropped.
    Released { node: u16 },
    /// The future of a call of an async node wants to be polled.
    Poll { node: u16, slot: u16 },
    /// A node is back from its executor.
    Returned { node: u16, returned: Box<Returned> },
    /// A query: what the session waits for.
    Why(oneshot::Sender<Why>),
    /// A query: what the session is doing.
    Look(oneshot::Sender<Option<View>>),
    /// A query: the timeline of the session.
    Timeline(oneshot::Sender<Option<Timeline>>),
    /// Adds a watcher of packets.
    Watch(Box<Watcher>),
    /// Asks for a notification when the session is idle, or also no node waits for an event.
    Idle {
        answer: oneshot::Sender<()>,
        without_events: bool,
    },
}

/// A node that was away on an executor, and what came of its call.
pub(super) struct Returned {
    pub(super) slot: u16,
    pub(super) node: Box<dyn Node>,
    pub(super) set: InputSet,
    pub(super) emits: Emits,
    pub(super) flow: Answer<Flow>,
    pub(super) time: Duration,
}
