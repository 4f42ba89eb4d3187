//! Use of a graph: its last one, for unloading when idle, and the present one in numbers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{Servable, demand::MAX_WAITING};
use crate::tensors::{self, CacheUse, ResponseCache};

/// The users of a graph, and the time of its last use.
#[derive(Debug)]
pub(super) struct GraphUsage(Mutex<Uses>);

#[derive(Debug)]
struct Uses {
    now: usize,
    last: Instant,
    /// True if its unloading was requested.
    leaves: bool,
}

impl Default for GraphUsage {
    fn default() -> Self {
        Self(Mutex::new(Uses {
            now: 0,
            last: Instant::now(),
            leaves: false,
        }))
    }
}

/// Guard of a use. The graph is in use until it is dropped.
#[derive(Debug)]
pub(crate) struct InUse(Arc<GraphUsage>);

impl GraphUsage {
    pub(super) fn begin(self: &Arc<Self>) -> InUse {
        let mut uses = self.0.lock();
        uses.now += 1;
        uses.last = Instant::now();
        uses.leaves = false;
        InUse(Arc::clone(self))
    }

    /// Restarts the idle time, and withdraws a request to unload.
    pub(super) fn touch(&self) {
        let mut uses = self.0.lock();
        uses.last = Instant::now();
        uses.leaves = false;
    }

    /// Requests unloading, until the next use starts.
    pub(super) fn leave(&self) {
        self.0.lock().leaves = true;
    }

    /// Returns true if it is unused, and its unloading was requested.
    pub(super) fn leaves(&self) -> bool {
        let uses = self.0.lock();
        uses.now == 0 && uses.leaves
    }

    pub(super) fn is_used(&self) -> bool {
        self.0.lock().now > 0
    }

    /// Returns the time of the last use.
    pub(super) fn last(&self) -> Instant {
        self.0.lock().last
    }

    /// Returns true if it is unused at this time, and has been for `for_time`.
    pub(super) fn is_idle(&self, for_time: Duration, at: Instant) -> bool {
        let uses = self.0.lock();
        uses.now == 0 && at.saturating_duration_since(uses.last) >= for_time
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut uses = self.0.0.lock();
        uses.now -= 1;
        uses.last = Instant::now();
    }
}

impl Servable {
    /// Returns true if it is unused.
    pub(super) fn is_unused(&self) -> bool {
        !self.usage.is_used() && self.open_sessions() == 0
    }

    /// Returns the number of requests that wait for it.
    pub(crate) fn requests_waiting(&self) -> usize {
        MAX_WAITING - self.waiting_places.available_permits()
    }

    /// Returns the number of jobs of its requests that wait for an executor.
    pub(crate) fn jobs_waiting(&self) -> usize {
        self.plan().map_or(0, |plan| plan.jobs_waiting())
    }

    /// Returns the number of requests refused because too many jobs waited.
    pub(crate) fn sessions_refused(&self) -> u64 {
        self.plan().map_or(0, |plan| plan.sessions_refused())
    }

    /// Returns the usage of its response cache; `None` if it has none.
    pub(crate) fn response_cache(&self) -> Option<CacheUse> {
        let plan = self.plan().ok()?;
        tensors::response_cache(&plan).map(ResponseCache::usage)
    }

    /// Returns the number of requests that the graph is processing.
    pub(crate) fn open_sessions(&self) -> usize {
        self.plan().map_or(0, |plan| plan.open_sessions())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_idle_time_begins_when_the_last_use_has_ended() {
        let usage = Arc::new(GraphUsage::default());
        let hour = Duration::from_hours(1);
        let later = |hours: u32| Instant::now() + hour * hours;
        assert!(!usage.is_idle(hour, Instant::now()) && usage.is_idle(hour, later(1)));
        let (long, short) = (usage.begin(), usage.begin());
        drop(short);
        assert!(!usage.is_idle(hour, later(9)), "somebody uses it");
        assert!(usage.is_used());
        drop(long);
        assert!(!usage.is_idle(hour, Instant::now()) && usage.is_idle(hour, later(1)));
    }

    #[test]
    fn a_later_use_keeps_it() {
        let usage = Arc::new(GraphUsage::default());
        let last = usage.begin();
        usage.leave();
        assert!(!usage.leaves(), "somebody uses it");
        drop(last);
        assert!(usage.leaves());
        drop(usage.begin());
        assert!(!usage.leaves());
    }
}
