//! The timeline of a session: its last calls and packets with their times, as many as its owner
//! keeps.
//!
//! A session keeps one only if told to. It then reads the clock for each call.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::{error::Error, timestamp::Timestamp};

use super::guard::Call;

/// What a session did, in the order in which it was over.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// When the session was made; times count from it.
    pub began: Instant,
    /// The last events.
    pub events: Vec<TimelineEvent>,
    /// How many events came before these and were not kept.
    pub dropped: u64,
}

/// One event.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TimelineEvent {
    /// When it was; of a call, when that began.
    pub at: Duration,
    /// What it was.
    pub what: Happening,
}

/// What happened.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A node was called.
    Call {
        /// Its position among [`Plan::node_names`](crate::Plan::node_names).
        node: usize,
        /// From the call's beginning to its end.
        took: Duration,
        /// The timestamp of its inputs; none of a call without.
        time: Option<Timestamp>,
    },
    /// A packet entered a stream.
    Packet {
        /// Its position among [`Plan::streams`](crate::Plan::streams).
        stream: usize,
        /// Its timestamp.
        time: Timestamp,
    },
}

/// Is given the timeline when the session has ended, and the error that ended it, if one did.
pub(super) type Done = Box<dyn FnOnce(Timeline, Option<&Error>) + Send>;

/// Keeps the last events of a session.
pub(super) struct Recorder {
    began: Instant,
    events: VecDeque<TimelineEvent>,
    /// The most events: what the owner is ready to hold in memory.
    most: usize,
    dropped: u64,
    done: Done,
}

impl Recorder {
    pub(super) fn new(most: usize, done: Done) -> Self {
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

    /// A call is over.
    pub(super) fn called(&mut self, node: usize, call: Call, at: Instant, took: Duration) {
        let time = match call {
            Call::Inputs(time) => Some(time),
            Call::Event | Call::Source | Call::Close => None,
        };
        self.add(at, Happening::Call { node, took, time });
    }

    /// A packet has entered a stream.
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

    /// The session has ended.
    pub(super) fn end(self, error: Option<&Error>) {
        let timeline = Timeline {
            began: self.began,
            events: self.events.into(),
            dropped: self.dropped,
        };
        (self.done)(timeline, error);
    }
}
