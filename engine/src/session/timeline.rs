//! The timeline of a session: its last calls and packets with their times. The owner sets the
//! number of events.
//!
//! A session keeps a timeline only on request. It then reads the clock for each call.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::{error::Error, timestamp::Timestamp};

use super::guard::CallReason;

/// Events of a session, in the order of their ends.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Start of the session, from which times count.
    pub began: Instant,
    /// Last events, oldest first, at most as many as the owner asked for.
    pub events: Vec<TimelineEvent>,
    /// Number of earlier events that were not kept.
    pub dropped: u64,
}

/// One call of a node, or one packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TimelineEvent {
    /// Time since the start of the session; for a call, of its beginning.
    pub at: Duration,
    /// Call or packet that the event stands for.
    pub what: Happening,
}

/// The kind of an event.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A call of a node.
    Call {
        /// Position of the node in [`Plan::node_names`](crate::Plan::node_names).
        node: usize,
        /// Duration from the start of the call to its end.
        took: Duration,
        /// Timestamp of the inputs; `None` for a call without inputs.
        time: Option<Timestamp>,
    },
    /// A packet that entered a stream.
    Packet {
        /// Position of the stream in [`Plan::streams`](crate::Plan::streams).
        stream: usize,
        /// Timestamp of the packet, which is not a time of the clock.
        time: Timestamp,
    },
}

/// A callback with the timeline and the error that ended the session, if any.
pub(super) type DoneCallback = Box<dyn FnOnce(Timeline, Option<&Error>) + Send>;

/// Keeps the last events of a session.
pub(super) struct Recorder {
    began: Instant,
    events: VecDeque<TimelineEvent>,
    /// Maximum number of events that are kept.
    most: usize,
    dropped: u64,
    done: DoneCallback,
}

impl Recorder {
    pub(super) fn new(most: usize, done: DoneCallback) -> Self {
        Self {
            began: Instant::now(),
            events: VecDeque::new(),
            most: most.max(1),
            dropped: 0,
            done,
        }
    }

    fn add(&mut self, at: Instant, what: Happening) {
        if self.events.len() == self.most {
            self.events.pop_front();
            self.dropped += 1;
        }
        let at = at.saturating_duration_since(self.began);
        self.events.push_back(TimelineEvent { at, what });
    }

    /// Records a call that has ended.
    pub(super) fn called(&mut self, node: usize, call: CallReason, at: Instant, took: Duration) {
        let time = match call {
            CallReason::Inputs(time) => Some(time),
            CallReason::Event | CallReason::Source | CallReason::Close => None,
        };
        self.add(at, Happening::Call { node, took, time });
    }

    /// Records a packet that has entered a stream.
    pub(super) fn packet(&mut self, stream: usize, at: Instant, time: Timestamp) {
        self.add(at, Happening::Packet { stream, time });
    }

    pub(super) fn timeline(&self) -> Timeline {
        Timeline {
            began: self.began,
            events: self.events.iter().copied().collect(),
            dropped: self.dropped,
        }
    }

    /// Passes the timeline on at the end of the session.
    pub(super) fn end(self, error: Option<&Error>) {
        let timeline = self.timeline();
        (self.done)(timeline, error);
    }
}
