//! One graph and the state it is in.

use std::{
    sync::{Arc, OnceLock},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use arc_swap::ArcSwap;
use graphmill_engine::{Plan, Resource, Seen};

use crate::rescue::{Cause, Failure};

/// A graph that a configuration lists.
pub(crate) struct Servable {
    name: String,
    state: ArcSwap<State>,
    /// The files that it was last loaded from.
    seen: ArcSwap<Seen>,
    /// When its first load began.
    began: OnceLock<Instant>,
}

/// Where a graph is between its file and its requests.
enum State {
    Loading,
    Available(Available),
    /// Why it could not be loaded, in one line.
    Failed(Arc<str>),
    /// The same, where it is loaded once the file that is missing is there.
    Waiting(Arc<str>),
}

/// What an available graph is served with.
#[derive(Clone)]
struct Available {
    plan: Arc<Plan>,
    /// Seconds since 1970.
    since: u64,
}

/// The name of a [`State`].
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum StateName {
    Loading,
    Available,
    Failed,
    Waiting,
}

impl StateName {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Loading => "LOADING",
            Self::Available => "AVAILABLE",
            Self::Failed => "FAILED",
            Self::Waiting => "WAITING",
        }
    }
}

impl Servable {
    pub(super) fn loading(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            state: ArcSwap::from_pointee(State::Loading),
            seen: ArcSwap::default(),
            began: OnceLock::new(),
        }
    }

    /// The files that it was last loaded from; none before that.
    pub(super) fn seen(&self) -> Arc<Seen> {
        self.seen.load_full()
    }

    pub(super) fn was_made_of(&self, seen: Seen) {
        self.seen.store(Arc::new(seen));
    }

    /// Its load begins now.
    pub(super) fn begins(&self) {
        self.began.get_or_init(Instant::now);
    }

    /// When its first load began, if it did.
    pub(super) fn began(&self) -> Option<Instant> {
        self.began.get().copied()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn state_name(&self) -> StateName {
        match &**self.state.load() {
            State::Loading => StateName::Loading,
            State::Available(_) => StateName::Available,
            State::Failed(_) => StateName::Failed,
            State::Waiting(_) => StateName::Waiting,
        }
    }

    /// Why the graph could not be loaded, if so.
    pub(crate) fn failure(&self) -> Option<Arc<str>> {
        match &**self.state.load() {
            State::Failed(reason) | State::Waiting(reason) => Some(Arc::clone(reason)),
            _ => None,
        }
    }

    /// Since when the graph answers, in seconds since 1970, if it does.
    pub(crate) fn available_since(&self) -> Option<u64> {
        match &**self.state.load() {
            State::Available(available) => Some(available.since),
            _ => None,
        }
    }

    /// The plan to open a session on, or the failure that a request for the graph gets.
    pub(crate) fn plan(&self) -> Result<Arc<Plan>, Failure> {
        self.available().map(|available| available.plan)
    }

    /// What its nodes share of this kind; nothing before it is available.
    pub(super) fn resources<R: Resource>(&self) -> Vec<Arc<R>> {
        self.plan().map_or(Vec::new(), |plan| plan.resources())
    }

    /// As [`Servable::available_since`], or the failure that a request for the graph gets.
    pub(crate) fn require_available(&self) -> Result<u64, Failure> {
        self.available().map(|available| available.since)
    }

    fn available(&self) -> Result<Available, Failure> {
        match &**self.state.load() {
            State::Available(available) => Ok(available.clone()),
            State::Loading => Err(Failure::new(
                Cause::Loading,
                format!("the graph `{}` is being loaded", self.name),
            )),
            State::Waiting(reason) => Err(Failure::new(
                Cause::Loading,
                format!("the graph `{}` waits for a file: {reason}", self.name),
            )),
            State::Failed(reason) => Err(Failure::new(
                Cause::GraphFailed,
                format!("the graph `{}` could not be loaded: {reason}", self.name),
            )),
        }
    }

    pub(super) fn becomes_available(&self, plan: Arc<Plan>) {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        self.state
            .store(Arc::new(State::Available(Available { plan, since })));
    }

    pub(super) fn becomes_waiting(&self, reason: &str) {
        self.state.store(Arc::new(State::Waiting(reason.into())));
    }

    pub(super) fn becomes_failed(&self, reason: &str) {
        self.state.store(Arc::new(State::Failed(reason.into())));
    }

    /// How many jobs of its requests wait for an executor.
    pub(crate) fn jobs_waiting(&self) -> usize {
        self.available()
            .map_or(0, |available| available.plan.jobs_waiting())
    }

    /// How many requests were refused because too many jobs waited.
    pub(crate) fn sessions_refused(&self) -> u64 {
        self.available()
            .map_or(0, |available| available.plan.sessions_refused())
    }

    /// How many requests the graph is working on.
    pub(crate) fn open_sessions(&self) -> usize {
        self.available()
            .map_or(0, |available| available.plan.open_sessions())
    }
}
