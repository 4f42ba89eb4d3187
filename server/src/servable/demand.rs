//! Requests for graphs that are not available. They wait for a running load, or start one.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use graphmill_engine::Plan;
use tokio::{task::spawn_blocking, time::timeout_at};

use super::{ResolvedGraph, Servable, ServedGraphs, StateName, usage::InUse};
use crate::errors::{Cause, Failure};

/// Maximum number of requests that wait for a graph, as each holds its body. Further ones are
/// refused.
pub(super) const MAX_WAITING: usize = 256;

/// A graph that answers, and stays in memory until this is dropped.
pub(crate) struct Ready {
    pub(crate) servable: Arc<Servable>,
    /// Adapter that the request names.
    pub(crate) adapter: Option<Arc<str>>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) in_use: InUse,
}

impl Ready {
    /// Returns the plan for opening sessions.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }
}

impl ServedGraphs {
    /// Waits until the graph that `find` returns is available, after loading it on demand. `find`
    /// is called again after each state change, because a reload may have replaced the
    /// configuration. The load may take `load_wait`, and everything ends at the deadline of the
    /// request.
    pub(crate) async fn available(
        self: &Arc<Self>,
        find: impl Fn() -> Result<ResolvedGraph, Failure>,
        load_wait: Duration,
        deadline: Option<Instant>,
    ) -> Result<Ready, Failure> {
        let mut changed = self.changed.subscribe();
        let load_ends = Instant::now() + load_wait;
        let ends = deadline.map_or(load_ends, |it| it.min(load_ends));
        let mut place = None;
        loop {
            changed.borrow_and_update();
            let ResolvedGraph { servable, adapter } = find()?;
            let failure = match servable.acquire() {
                Ok((plan, in_use)) => {
                    return Ok(Ready {
                        servable,
                        adapter,
                        plan,
                        in_use,
                    });
                }
                Err(failure) => failure,
            };
            if servable.is_to_be_loaded() {
                let (served, servable) = (Arc::clone(self), Arc::clone(&servable));
                spawn_blocking(move || served.load_wanted(&servable));
            } else if servable.state_name().is_failed() || servable.is_kept_out() {
                return Err(failure);
            }
            if Instant::now() >= ends {
                if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                    let name = servable.name();
                    let message =
                        format!("the deadline passed before the graph `{name}` was loaded");
                    return Err(Failure::new(Cause::Deadline, message));
                }
                // The current state, as this request may have started the load.
                return Err(servable.plan().err().unwrap_or(failure));
            }
            let is_other = |(of, _): &(Arc<Servable>, _)| !Arc::ptr_eq(of, &servable);
            if place.as_ref().is_none_or(is_other) {
                let free = Arc::clone(&servable.waiting_places).try_acquire_owned();
                let free = free.map_err(|_| too_many(&servable))?;
                place = Some((Arc::clone(&servable), free));
            }
            // The timeout ends it at the latest. The sender of changes is never dropped.
            let _ = timeout_at(ends.into(), changed.changed()).await;
        }
    }

    /// Loads a graph that a request has claimed, unless a reload has replaced it.
    fn load_wanted(&self, servable: &Arc<Servable>) {
        let mut looked = self.lock_stamps();
        let servables = self.now();
        let is_listed = |now: &Arc<Servable>| Arc::ptr_eq(now, servable);
        if !servables.get(servable.name()).is_some_and(is_listed) {
            servable.set_unloaded("it was replaced");
            return;
        }
        if servable.state_name() != StateName::Loading {
            return;
        }
        let entry = servable.entry();
        let (mut made, wrong) = servables.check(entry);
        if wrong.is_some() && made.adapters.is_empty() {
            // A text with mistakes may hide them. Requests for them get its failure.
            made.adapters.clone_from(&servable.sources().adapters);
        }
        servable.set_sources(made);
        if let Some(failed) = wrong {
            // No other graph is unloaded for it.
            servables.record_failure(entry, &failed);
            servables.log_failure(entry, &failed);
        } else if let Err(reason) = servables.make_room(servable) {
            tracing::error!("graph `{}` is not loaded: {reason}", servable.name());
            servable.set_failed(&reason, true);
        } else if let Err(failed) = servables.load_one(entry) {
            servables.log_failure(entry, &failed);
        }
        looked.extend(&servable.sources().seen);
        self.hint.notify_one();
    }
}

/// Creates the failure of a request for which there is no place to wait.
fn too_many(servable: &Servable) -> Failure {
    let name = servable.name();
    let message = format!("{MAX_WAITING} requests wait for the graph `{name}` to be loaded");
    Failure::new(Cause::QueueFull, message).after(servable.time_left())
}
