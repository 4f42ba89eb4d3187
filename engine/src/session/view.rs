//! A view of a session's activity: the state and the counts of each node, and the packets in each
//! queue.
//!
//! A session counts its calls and packets anyway. It makes a view on request, between two calls of
//! nodes.

use std::time::Duration;

use serde::Serialize;

/// A session at one moment.
#[derive(Clone, Debug)]
pub struct View {
    /// By node, in the order of the plan.
    pub nodes: Vec<NodeView>,
    /// By input of a node, in the order of [`Plan::edges`](crate::Plan::edges).
    pub edges: Vec<EdgeView>,
}

/// A node of a session at one moment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// What it does.
    pub activity: Activity,
    /// How often it was called.
    pub calls: u64,
    /// The time that its calls took that are over.
    pub busy: Duration,
}

/// The queue of an input at one moment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct EdgeView {
    /// The packets that wait in it.
    pub queued: usize,
    /// How many it takes; none where nothing limits it.
    pub bound: Option<usize>,
    /// The packets that its stream has carried.
    pub packets: u64,
}

/// What a node does.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// It has nothing to do.
    Idle,
    /// It can be called, and will be.
    Ready,
    /// A call goes on.
    Running,
    /// It has something to do, or is held open, and waits: for another of its inputs, for an event,
    /// or for what it needs to open. [`Why`](super::Why) says for what.
    Waiting,
    /// It could be called, but a queue that it feeds is full.
    Blocked,
    /// It will not be called any more.
    Closed,
    /// The session failed in it.
    Failed,
}

impl Activity {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Idle,
        Self::Ready,
        Self::Running,
        Self::Waiting,
        Self::Blocked,
        Self::Closed,
        Self::Failed,
    ];

    /// Its name, such as `idle`.
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
