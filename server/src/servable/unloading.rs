//! Unloading graphs: when they are idle, when another graph needs their memory, and before their
//! successor is loaded.

use std::{
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};

use graphmill_engine::Plan;
use graphmill_llm::room;
use tokio::{task::spawn_blocking, time::sleep};

use super::{Servable, Servables, Served};
use crate::config::GraphEntry;

/// Poll interval for unused graphs.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long a reader may still hold an unused graph.
const LET_GO: Duration = Duration::from_secs(1);

/// Poll interval while a plan is still used.
const LOOK_AT_USE: Duration = Duration::from_millis(5);

/// Why an unused graph is unloaded.
pub(super) const WHEN_IDLE: &str = "unloaded when idle";
const ON_REQUEST: &str = "unloaded because a request asked for it";

/// Unloads graphs that have had no request for as long as their entries say, until the server is
/// gone.
pub(crate) async fn unload_idle(served: Weak<Served>) {
    loop {
        sleep(LOOK_EVERY).await;
        let Some(servables) = served.upgrade().map(|served| served.now()) else {
            return;
        };
        let now = Instant::now();
        if servables.iter().any(|servable| servable.is_due(now))
            && spawn_blocking(move || servables.unload_due(now))
                .await
                .is_err()
        {
            return; // the runtime ends
        }
    }
}

impl Servables {
    fn unload_due(&self, now: Instant) {
        for servable in self.iter().filter(|servable| servable.is_due(now)) {
            let reason = if servable.usage.leaves() {
                ON_REQUEST
            } else {
                WHEN_IDLE
            };
            servable.unload(|| servable.is_due(now), reason);
        }
    }

    /// Makes room in memory for a graph that is loaded on demand: unloads unused graphs of the same
    /// kind, the least recently used first.
    pub(super) fn make_room(&self, entry: &GraphEntry) -> Result<(), String> {
        let (made, _) = self.check(entry);
        loop {
            let bytes = made.seen.bytes_beyond(&self.in_memory());
            let Err(short) = room::ensure(bytes) else {
                return Ok(());
            };
            let mut unused: Vec<&Servable> = self
                .iter()
                .filter(|servable| servable.may_leave())
                .collect();
            unused.sort_by_key(|servable| servable.usage.last());
            let reason = format!("unloaded to make room for `{}`", entry.id());
            let mut left = unused.into_iter();
            if !left.any(|servable| servable.unload(|| servable.may_leave(), &reason)) {
                return Err(format!(
                    "it takes {} MiB, {} MiB of memory are left, and no other graph can be unloaded",
                    bytes >> 20,
                    short.left >> 20
                ));
            }
        }
    }
}

impl Servable {
    /// Has it unloaded once it is unused, where the next request has it loaded again.
    pub(crate) fn leave(&self) {
        if self.loads_on_demand() {
            self.usage.leave();
        }
    }

    /// The time after which it is unloaded if no request comes, where it is.
    pub(crate) fn time_to_unload(&self) -> Option<Duration> {
        let time = self.idle_unload()?;
        let unused = if self.is_unused() {
            self.usage.last().elapsed()
        } else {
            Duration::ZERO
        };
        Some(time.saturating_sub(unused))
    }

    /// Whether it has been idle for as long as it may, or is asked to leave.
    fn is_due(&self, now: Instant) -> bool {
        let is_idle = |time| self.usage.is_idle(time, now);
        let may_leave = self.usage.leaves() || self.idle_unload().is_some_and(is_idle);
        self.available_since().is_some() && may_leave && self.is_unused()
    }

    /// Whether it can leave and come back with the next request.
    fn may_leave(&self) -> bool {
        self.loads_on_demand() && self.available_since().is_some() && self.is_unused()
    }

    /// Takes it out of memory, if `may` agrees.
    fn unload(&self, may: impl FnOnce() -> bool, reason: &str) -> bool {
        let Some(plan) = self.take_plan(may) else {
            return false;
        };
        // A request that has come in this moment ends on the plan that it has.
        is_let_go(&plan, LET_GO);
        drop(plan);
        room::trim();
        tracing::info!("graph `{}`: {reason}", self.name());
        self.becomes_unloaded(reason);
        true
    }

    /// Takes its plan away and waits until no request runs on it. The error is the plan, where that
    /// takes longer than `patience`.
    pub(super) fn drain(&self, patience: Duration) -> Result<(), Arc<Plan>> {
        let Some(plan) = self.take_plan(|| true) else {
            return Ok(());
        };
        if !is_let_go(&plan, patience) {
            return Err(plan);
        }
        drop(plan);
        room::trim();
        Ok(())
    }
}

/// Whether all other holders of a plan drop it within this time.
fn is_let_go(plan: &Arc<Plan>, within: Duration) -> bool {
    let deadline = Instant::now() + within;
    while Arc::strong_count(plan) > 1 {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(LOOK_AT_USE);
    }
    true
}
