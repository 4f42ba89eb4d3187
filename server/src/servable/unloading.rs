//! Unloading of graphs: when they are idle, when another graph needs their memory, and before their
//! successor is loaded.

use std::{
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};

use graphmill_engine::Plan;
use graphmill_llm::memory_budget;
use tokio::{task::spawn_blocking, time::sleep};

use super::{Servable, Servables, ServedGraphs, StateName};
use crate::errors::{Cause, Failure};

/// Interval for checking unused graphs.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Maximum time for a reader to release an unused graph.
const LET_GO: Duration = Duration::from_secs(1);

/// Interval for checking a plan that is still in use.
const LOOK_AT_USE: Duration = Duration::from_millis(5);

/// Maximum time for running requests to end when their graph changes.
pub(super) const DRAIN_AT_MOST: Duration = Duration::from_mins(10);

/// Reason for unloading a graph on behalf of an operator.
pub(super) const BY_OPERATOR: &str = "unloaded by an operator";

/// Reason for unloading an unused graph.
pub(super) const WHEN_IDLE: &str = "unloaded when idle";
const ON_REQUEST: &str = "unloaded because a request asked for it";

/// Unloads graphs after the idle time in their settings, until the server is gone.
pub(crate) async fn unload_idle(served: Weak<ServedGraphs>) {
    loop {
        sleep(LOOK_EVERY).await;
        let Some(servables) = served.upgrade().map(|served| served.now()) else {
            return;
        };
        let now = Instant::now();
        if servables.iter().any(|servable| servable.is_due(now)) {
            let unloading = spawn_blocking(move || servables.unload_due(now));
            if unloading.await.is_err() {
                return; // the runtime ends
            }
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

    /// Makes room in memory for an on-demand graph: unloads unused graphs of that kind, least
    /// recently used first.
    pub(super) fn make_room(&self, servable: &Servable) -> Result<(), String> {
        let made = servable.sources();
        loop {
            let bytes = made.seen.bytes_beyond(&self.in_memory());
            let most = self.settings.models_max;
            let full = most.filter(|most| self.loaded_on_demand() >= *most);
            let short = memory_budget::ensure(bytes);
            if full.is_none() && short.is_ok() {
                return Ok(());
            }
            let mut unused: Vec<&Servable> = self.iter().filter(|it| it.may_leave()).collect();
            unused.sort_by_key(|servable| servable.usage.last());
            let reason = format!("unloaded to make room for `{}`", servable.name());
            let mut left = unused.into_iter();
            if !left.any(|other| other.unload(|| other.may_leave(), &reason)) {
                return Err(match (full, short) {
                    (Some(most), _) => format!(
                        "--models_max {most} allows no more on-demand graphs, and all loaded ones are in use"
                    ),
                    (None, short) => format!(
                        "it needs {} MiB, but only {} MiB of memory are left, and no other graph can be unloaded",
                        bytes >> 20,
                        short.map_or_else(|short| short.left >> 20, |()| 0)
                    ),
                });
            }
        }
    }

    /// Returns the number of on-demand graphs in memory.
    fn loaded_on_demand(&self) -> usize {
        let is_counted = |it: &&Servable| it.loads_on_demand() && it.available_since().is_some();
        self.iter().filter(is_counted).count()
    }
}

impl Servable {
    /// Requests that it is unloaded once it is unused, if the next request can load it again.
    pub(crate) fn leave(&self) {
        if self.loads_on_demand() {
            self.usage.leave();
        }
    }

    /// Returns the time until it is unloaded if no request comes; `None` if it never is.
    pub(crate) fn time_to_unload(&self) -> Option<Duration> {
        let time = self.idle_unload()?;
        let unused = if self.is_unused() {
            self.usage.last().elapsed()
        } else {
            Duration::ZERO
        };
        Some(time.saturating_sub(unused))
    }

    /// Returns true if its idle time is over, or its unloading was requested.
    fn is_due(&self, now: Instant) -> bool {
        let is_idle = |time| self.usage.is_idle(time, now);
        let may_leave = self.usage.leaves() || self.idle_unload().is_some_and(is_idle);
        self.available_since().is_some() && may_leave && self.is_unused()
    }

    /// Returns true if it can be unloaded and loaded again by the next request.
    fn may_leave(&self) -> bool {
        self.loads_on_demand() && self.available_since().is_some() && self.is_unused()
    }

    /// Unloads it, if `may` agrees.
    fn unload(&self, may: impl FnOnce() -> bool, reason: &str) -> bool {
        let Some(plan) = self.take_plan(may) else {
            return false;
        };
        // A request that has just arrived ends on the plan that it has.
        wait_until_released(&plan, LET_GO);
        drop(plan);
        memory_budget::trim();
        tracing::info!("graph `{}`: {reason}", self.name());
        self.set_unloaded(reason);
        true
    }

    /// Takes its plan and waits until no request uses it. The error is the plan, if that takes
    /// longer than `patience`.
    pub(super) fn drain(&self, patience: Duration) -> Result<(), Arc<Plan>> {
        let plan = self.take_plan(|| true);
        plan.map_or(Ok(()), |plan| release(plan, patience))
    }

    /// Unloads it on behalf of an operator, once its requests have ended. The next request loads it
    /// again; with `keeps_out`, only a load by its name.
    ///
    /// # Errors
    /// If it is being loaded or has failed. Also if its requests run for too long; it stays loaded
    /// then.
    pub(crate) fn put_to_sleep(&self, keeps_out: bool) -> Result<(), Failure> {
        let name = self.name();
        let may = || {
            self.record_unloading(keeps_out);
            true
        };
        let Some(plan) = self.take_plan(may) else {
            if keeps_out && self.keep_out(BY_OPERATOR) {
                return Ok(());
            }
            let state = self.state_name();
            if state.is_unloaded() || state == StateName::Unloading {
                return Ok(());
            }
            let why = format!("the graph `{name}` is not loaded");
            return Err(Failure::new(Cause::NotFound, why).with_field("model"));
        };
        if let Err(plan) = release(plan, DRAIN_AT_MOST) {
            self.set_available(plan);
            let seconds = DRAIN_AT_MOST.as_secs();
            let why = format!("requests of `{name}` still run after {seconds} s: it stays loaded");
            return Err(Failure::new(Cause::Unavailable, why).with_code("in_use"));
        }
        self.set_unloaded(BY_OPERATOR);
        tracing::info!("graph `{name}`: {BY_OPERATOR}");
        Ok(())
    }
}

/// Drops a plan after all other holders. The error is the plan, if that takes longer than
/// `patience`.
fn release(plan: Arc<Plan>, patience: Duration) -> Result<(), Arc<Plan>> {
    if !wait_until_released(&plan, patience) {
        return Err(plan);
    }
    drop(plan);
    memory_budget::trim();
    Ok(())
}

/// Returns true if all other holders of a plan drop it within this time.
fn wait_until_released(plan: &Arc<Plan>, within: Duration) -> bool {
    let deadline = Instant::now() + within;
    while Arc::strong_count(plan) > 1 {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(LOOK_AT_USE);
    }
    true
}
