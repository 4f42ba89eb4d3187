//! Views of a session's activity: the state and counts of each node, and the packets in each queue.
//!
//! A session counts its calls and packets in any case. It makes a view on request, between two
//! calls of nodes.

use std::time::Duration;

use serde::Serialize;

/// The state of a session at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Nodes in the order of the plan.
    pub nodes: Vec<NodeSnapshot>,
    /// Inputs of nodes, in the order of [`Plan::edges`](crate::Plan::edges).
    pub edges: Vec<EdgeSnapshot>,
}

/// The state of a node at one moment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NodeSnapshot {
    /// Activity at the moment of the view.
    pub activity: Activity,
    /// Number of calls: `process` and `close`.
    pub calls: u64,
    /// Total duration of ended calls.
    pub busy: Duration,
}

/// The queue of an input at one moment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct EdgeSnapshot {
    /// Number of packets that wait for the node.
    pub queued: usize,
    /// Limit of packets; `None` for no limit.
    pub bound: Option<usize>,
    /// Number of packets that its stream has carried.
    pub packets: u64,
}

/// The activity of a node.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// The node has nothing to do.
    Idle,
    /// The node can be called, and will be.
    Ready,
    /// A call is in progress.
    Running,
    /// The node has something to do, or is held open, and waits for another input, for an event, or
    /// for its side packets. [`Why`](super::Why) has the reason.
    Waiting,
    /// The node could be called, but a queue that it feeds is full.
    Blocked,
    /// The node will not be called any more.
    Closed,
    /// The session failed in this node.
    Failed,
}

impl Activity {
    /// All activities, in the order of their declaration.
    pub const ALL: [Self; 7] = [
        Self::Idle,
        Self::Ready,
        Self::Running,
        Self::Waiting,
        Self::Blocked,
        Self::Closed,
        Self::Failed,
    ];

    /// Returns the name in JSON, such as `idle`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Blocked => "blocked",
            Self::Closed => "closed",
            Self::Failed => "failed",
        }
    }
}
