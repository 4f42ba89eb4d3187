//! Messages to a session.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::{
    calculator::Flow,
    calculator::erased::{CallResult, ErasedNode},
    emits::Emits,
    input::{Event, InputSet},
    packet::Packet,
    timestamp::Timestamp,
};

use super::{packet_observer::PacketObserver, snapshot::Snapshot, timeline::Timeline, why::Why};

/// A message in the inbox of a session.
pub(super) enum SessionMessage {
    /// A packet for a graph input.
    Packet { input: u16, packet: Packet },
    /// A bound: no packet before `at` will come on a graph input.
    Bound { input: u16, at: Timestamp },
    /// A value to drop once the nodes have taken all packets up to `at` of a graph input.
    KeepUntilTaken {
        input: u16,
        at: Timestamp,
        kept: Box<dyn Send>,
    },
    /// The end of a graph input.
    CloseInput { input: u16 },
    /// The request to close the graph's sources.
    StopSources,
    /// An event for an event port of a node.
    Event { node: u16, event: Event },
    /// The release of a hold on a node.
    Released { node: u16 },
    /// The request to poll a call of an async node.
    Poll { node: u16, slot: u16 },
    /// The return of a node from its executor.
    Returned {
        node: u16,
        returned: Box<NodeReturn>,
    },
    /// A query for the session's current wait.
    Why(oneshot::Sender<Why>),
    /// A query for a view of the session.
    Snapshot(oneshot::Sender<Option<Snapshot>>),
    /// A query for the timeline of the session.
    Timeline(oneshot::Sender<Option<Timeline>>),
    /// A new watcher of packets.
    Observe(Box<PacketObserver>),
    /// The request for a notification when the session is idle, or, also without events, settled.
    Idle {
        answer: oneshot::Sender<()>,
        without_events: bool,
    },
}

/// A node back from an executor, with the result of its call.
pub(super) struct NodeReturn {
    pub(super) slot: u16,
    pub(super) node: Box<dyn ErasedNode>,
    pub(super) set: InputSet,
    pub(super) emits: Emits,
    pub(super) flow: CallResult<Flow>,
    pub(super) time: Duration,
}
