//! Counts and times of the requests for each graph, whatever protocol they came by.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::Serialize;

/// How many there were, and how long they took together.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Times {
    pub(crate) count: u64,
    pub(crate) ns: u64,
}

impl Times {
    fn add(&mut self, time: Duration) {
        self.count += 1;
        self.ns += time.as_nanos() as u64;
    }
}

/// What is counted of one graph.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GraphCounts {
    /// When the last request ended, in milliseconds since 1970.
    pub(crate) last: u64,
    /// Requests that were answered, from their first byte to the last of the answer.
    pub(crate) success: Times,
    /// Requests that were not.
    pub(crate) fail: Times,
    /// Of those that were answered: the time in the queue of a model.
    pub(crate) queue: Times,
    /// The rest.
    pub(crate) infer: Times,
}

impl GraphCounts {
    /// Pre- and post-processing, which are not timed separately: zero time, the same count, because
    /// Triton's `perf_analyzer` fails if the three counts differ.
    pub(crate) fn around(&self) -> Times {
        Times {
            count: self.infer.count,
            ns: 0,
        }
    }
}

/// The counts of all graphs: as many as were ever listed.
#[derive(Debug, Default)]
pub(crate) struct Statistics(Mutex<BTreeMap<String, GraphCounts>>);

impl Statistics {
    /// Counts a request that has ended.
    pub(crate) fn ended(&self, graph: &str, well: bool, took: Duration, queued: Option<Duration>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut graphs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = match graphs.get_mut(graph) {
            Some(counts) => counts,
            None => graphs.entry(graph.to_owned()).or_default(),
        };
        counts.last = now.map_or(0, |now| now.as_millis() as u64);
        if well {
            let queued = queued.unwrap_or_default();
            counts.success.add(took);
            counts.queue.add(queued);
            counts.infer.add(took.saturating_sub(queued));
        } else {
            counts.fail.add(took);
        }
    }

    /// What was counted of a graph.
    pub(crate) fn of(&self, graph: &str) -> GraphCounts {
        let graphs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        graphs.get(graph).copied().unwrap_or_default()
    }
}
