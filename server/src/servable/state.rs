//! One graph, or one version of it, and the state it is in.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use arc_swap::{ArcSwap, ArcSwapOption};
use graphmill_engine::{FileStamps, Plan, Resource};
use tokio::sync::watch;

use super::{
    load::Made,
    usage::{InUse, Usage},
};
use crate::{
    config::{GenerateForm, GraphEntry, Serving},
    errors::{Cause, Failure},
    tensors::{self, CacheUse, ResponseCache},
};

/// Wakes those who wait for a graph whenever the state of any graph, or the list, has changed.
pub(super) type Changed = Arc<watch::Sender<()>>;

/// After a failed load a graph that is loaded on demand fails its requests for so long, before one
/// of them has it loaded again: a load that fails takes time, too.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// A graph that a configuration lists.
pub(crate) struct Servable {
    id: String,
    /// The graph as the configuration lists it.
    entry: GraphEntry,
    /// The same as that of the entry, with the defaults of the server.
    serving: Serving,
    state: ArcSwap<State>,
    /// Whether nothing waits for its first load any more.
    settled: AtomicBool,
    /// Set while it is out of memory because an operator says so: a request has it loaded again.
    sleeps: AtomicBool,
    /// Set while an operator keeps it out of memory: it is loaded by its name, and not by a request.
    kept_out: AtomicBool,
    /// Held while the state changes because of what it is.
    changing: Mutex<()>,
    changed: Changed,
    /// What it was last made of.
    made: ArcSwap<Made>,
    /// When its load began that runs, or that was the last one.
    began: Mutex<Option<Instant>>,
    /// How long its last load took that succeeded.
    took: Mutex<Option<Duration>>,
    /// Why its last load failed, if that is what it did.
    last_failure: ArcSwapOption<String>,
    pub(super) usage: Arc<Usage>,
    /// Requests that wait for it.
    pub(super) waiting: AtomicUsize,
}

/// Where a graph is between its file and its requests.
enum State {
    /// Nothing has begun.
    Listed,
    Loading,
    Available(Available),
    /// It takes no request; those that run end.
    Unloading,
    /// Why it is not in memory. A request has it loaded again.
    Unloaded(Arc<str>),
    Failed(Failed),
    /// Why it could not be loaded, where it is loaded once the file that is missing is there.
    Waiting(Arc<str>),
}

/// What an available graph is served with.
#[derive(Clone)]
struct Available {
    plan: Arc<Plan>,
    /// Seconds since 1970.
    since: u64,
}

/// A load that failed.
struct Failed {
    /// In one line.
    reason: Arc<str>,
    /// For want of memory, which may be there the next time.
    for_memory: bool,
    at: Instant,
}

/// The name of a [`State`].
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum StateName {
    Listed,
    Loading,
    Available,
    Unloading,
    Unloaded,
    Failed,
    Waiting,
}

impl StateName {
    /// As the status says it: `OpenVINO` Model Server's states, and one of ours.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Listed => "START",
            Self::Loading => "LOADING",
            Self::Available => "AVAILABLE",
            Self::Unloading => "UNLOADING",
            Self::Unloaded | Self::Failed => "END",
            Self::Waiting => "WAITING",
        }
    }
}

impl Servable {
    pub(super) fn new(entry: GraphEntry, serving: Serving, changed: Changed) -> Self {
        Self {
            id: entry.id(),
            entry,
            serving,
            state: ArcSwap::from_pointee(State::Listed),
            settled: AtomicBool::new(serving.on_demand),
            sleeps: AtomicBool::new(false),
            kept_out: AtomicBool::new(false),
            changing: Mutex::default(),
            changed,
            made: ArcSwap::default(),
            began: Mutex::default(),
            took: Mutex::default(),
            last_failure: ArcSwapOption::empty(),
            usage: Arc::default(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// What a request says to get just this: `graph`, or `graph@version`.
    pub(crate) fn name(&self) -> &str {
        &self.id
    }

    /// The graph as the configuration lists it.
    pub(super) fn entry(&self) -> &GraphEntry {
        &self.entry
    }

    /// The form of its answers at `/generate`, where the configuration says it.
    pub(crate) fn generate_form(&self) -> Option<GenerateForm> {
        self.entry.serving.generate_form
    }

    /// The file of the graph, as the configuration names it.
    pub(crate) fn file(&self) -> &Path {
        &self.entry.file
    }

    /// The name of the graph, of which this may be a version.
    pub(crate) fn graph(&self) -> &str {
        &self.entry.name
    }

    /// Which version of the graph it is, where it has versions.
    pub(crate) fn version(&self) -> Option<u64> {
        self.entry.version
    }

    /// Whether the server is ready without it.
    pub(crate) fn is_optional(&self) -> bool {
        self.serving.optional
    }

    /// Further names of the graph.
    pub(crate) fn aliases(&self) -> &[String] {
        &self.entry.aliases
    }

    /// True if it is listed whatever becomes of it, as it keeps no other graph from being served.
    pub(crate) fn is_independent(&self) -> bool {
        self.serving.independent
    }

    /// Time for an answer where its request says none.
    pub(crate) fn response_timeout(&self) -> Option<Duration> {
        self.serving.response_timeout
    }

    /// Whether a request has it loaded.
    pub(crate) fn loads_on_demand(&self) -> bool {
        let on_demand = self.serving.on_demand || self.idle_unload().is_some() || self.sleeps();
        on_demand && !self.is_kept_out()
    }

    /// True if only a load by its name brings it back.
    pub(crate) fn is_kept_out(&self) -> bool {
        self.kept_out.load(Relaxed)
    }

    /// Keeps it out of memory until it is loaded by its name; false if it is there or on its way.
    pub(super) fn keep_out(&self, reason: &str) -> bool {
        let _changing = lock(&self.changing);
        let is_out = matches!(
            self.state_name(),
            StateName::Listed | StateName::Unloaded | StateName::Failed
        );
        if is_out {
            self.kept_out.store(true, Relaxed);
            self.becomes_unloaded(reason);
        }
        is_out
    }

    /// Lets a request load it again that was kept out of memory.
    pub(crate) fn let_in(&self) {
        if self.kept_out.swap(false, Relaxed) {
            self.falls_asleep(false);
        }
    }

    /// True if it is out of memory because an operator says so, until a request asks for it.
    pub(crate) fn sleeps(&self) -> bool {
        self.sleeps.load(Relaxed) && !self.is_kept_out()
    }

    /// Notes that an operator takes it out of memory: until a request, or a load by its name.
    pub(super) fn falls_asleep(&self, stays_out: bool) {
        let noted = if stays_out {
            &self.kept_out
        } else {
            &self.sleeps
        };
        noted.store(true, Relaxed);
    }

    /// Whether it is not loaded with the server.
    pub(super) fn starts_unloaded(&self) -> bool {
        self.serving.on_demand
    }

    /// After which time without a request it is unloaded, if at all.
    pub(super) fn idle_unload(&self) -> Option<Duration> {
        self.serving.idle_unload.filter(|time| !time.is_zero())
    }

    /// Whether nothing waits for its first load any more: it has ended, or is on demand.
    pub(super) fn is_settled(&self) -> bool {
        self.settled.load(Relaxed)
    }

    /// What it was last made of; nothing before that.
    pub(super) fn made(&self) -> Arc<Made> {
        self.made.load_full()
    }

    /// The files that it was last made of; none before that.
    pub(crate) fn files(&self) -> FileStamps {
        self.made().seen.clone()
    }

    /// The text of its graph file, where that is known.
    pub(crate) fn text(&self) -> Option<Arc<str>> {
        self.made().text.clone()
    }

    pub(super) fn was_made_of(&self, made: Made) {
        self.made.store(Arc::new(made));
    }

    /// Its load begins now.
    pub(super) fn begins(&self) {
        *lock(&self.began) = Some(Instant::now());
        let waits = self.state_name() == StateName::Waiting;
        if !waits {
            self.becomes(State::Loading);
        }
    }

    /// When its load began, if it did.
    pub(super) fn began(&self) -> Option<Instant> {
        *lock(&self.began)
    }

    /// How long its last load took that succeeded.
    pub(super) fn took(&self) -> Option<Duration> {
        *lock(&self.took)
    }

    pub(super) fn has_taken(&self, time: Duration) {
        *lock(&self.took) = Some(time);
    }

    /// Why its last load failed, if that is what it did.
    pub(super) fn last_failure(&self) -> Option<Arc<String>> {
        self.last_failure.load_full()
    }

    pub(crate) fn state_name(&self) -> StateName {
        match &**self.state.load() {
            State::Listed => StateName::Listed,
            State::Loading => StateName::Loading,
            State::Available(_) => StateName::Available,
            State::Unloading => StateName::Unloading,
            State::Unloaded(_) => StateName::Unloaded,
            State::Failed(_) => StateName::Failed,
            State::Waiting(_) => StateName::Waiting,
        }
    }

    /// Why the graph is not in memory, if that is known.
    pub(crate) fn failure(&self) -> Option<Arc<str>> {
        match &**self.state.load() {
            State::Failed(failed) => Some(Arc::clone(&failed.reason)),
            State::Waiting(reason) | State::Unloaded(reason) => Some(Arc::clone(reason)),
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

    /// The plan of a graph that stays in memory as long as the second value is kept.
    pub(super) fn take_up(&self) -> Result<(Arc<Plan>, InUse), Failure> {
        let _changing = lock(&self.changing);
        let plan = self.plan()?;
        Ok((plan, self.usage.begin()))
    }

    /// What its nodes share of this kind; nothing before it is available.
    pub(super) fn resources<R: Resource>(&self) -> Vec<Arc<R>> {
        self.plan().map_or(Vec::new(), |plan| plan.resources())
    }

    fn available(&self) -> Result<Available, Failure> {
        let name = &self.id;
        let loading = |message| {
            let failure = Failure::new(Cause::Loading, message);
            Err(failure.after(self.time_left()))
        };
        match &**self.state.load() {
            State::Available(available) => Ok(available.clone()),
            State::Listed | State::Unloaded(_) if self.loads_on_demand() => loading(format!(
                "the graph `{name}` is not loaded: a request for it loads it, and so does `POST /models/load`"
            )),
            State::Listed => loading(format!("the graph `{name}` is about to be loaded")),
            State::Loading => loading(format!("the graph `{name}` is being loaded")),
            State::Unloading => loading(format!("the graph `{name}` is being unloaded")),
            State::Unloaded(reason) if self.is_kept_out() => {
                let message = format!("the graph `{name}` is not loaded: {reason}");
                Err(Failure::new(Cause::GraphFailed, message).with_code("unloaded"))
            }
            State::Unloaded(reason) => {
                loading(format!("the graph `{name}` is not loaded: {reason}"))
            }
            State::Waiting(reason) => {
                loading(format!("the graph `{name}` waits for a file: {reason}"))
            }
            State::Failed(failed) => {
                let cause = if failed.for_memory {
                    Cause::NoMemory
                } else {
                    Cause::GraphFailed
                };
                let reason = &failed.reason;
                let message = format!("the graph `{name}` could not be loaded: {reason}");
                Err(Failure::new(cause, message))
            }
        }
    }

    pub(super) fn becomes_available(&self, plan: Arc<Plan>) {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        self.last_failure.store(None);
        self.sleeps.store(false, Relaxed);
        self.kept_out.store(false, Relaxed);
        self.usage.touch();
        self.becomes(State::Available(Available { plan, since }));
    }

    pub(super) fn becomes_waiting(&self, reason: &str) {
        self.becomes(State::Waiting(reason.into()));
    }

    pub(super) fn becomes_failed(&self, reason: &str, for_memory: bool) {
        self.last_failure.store(Some(Arc::new(reason.to_owned())));
        self.becomes(State::Failed(Failed {
            reason: reason.into(),
            for_memory,
            at: Instant::now(),
        }));
    }

    /// It is not in memory from now on.
    pub(super) fn becomes_unloaded(&self, reason: &str) {
        self.becomes(State::Unloaded(reason.into()));
    }

    fn becomes(&self, state: State) {
        if !matches!(state, State::Listed | State::Loading | State::Unloading) {
            self.settled.store(true, Relaxed);
        }
        self.state.store(Arc::new(state));
        self.changed.send_replace(());
    }

    /// Claims the load of the graph; true for the first caller.
    pub(super) fn is_to_be_loaded(&self) -> bool {
        let _changing = lock(&self.changing);
        let wanted = match &**self.state.load() {
            State::Listed | State::Unloaded(_) => true,
            State::Failed(failed) => failed.at.elapsed() >= RETRY_AFTER,
            _ => false,
        };
        if wanted && self.loads_on_demand() {
            *lock(&self.began) = None;
            self.becomes(State::Loading);
            return true;
        }
        false
    }

    /// Takes the plan of an available graph away, if `may` agrees. From now on it is unloading.
    pub(super) fn take_plan(&self, may: impl FnOnce() -> bool) -> Option<Arc<Plan>> {
        let _changing = lock(&self.changing);
        let plan = self.plan().ok()?;
        if !may() {
            return None;
        }
        self.becomes(State::Unloading);
        Some(plan)
    }

    /// Whether it is unused.
    pub(super) fn is_unused(&self) -> bool {
        !self.usage.is_used() && self.open_sessions() == 0
    }

    /// How many requests wait for it.
    pub(crate) fn requests_waiting(&self) -> usize {
        self.waiting.load(Relaxed)
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

    /// The use of the answers that the graph keeps, if it keeps any.
    pub(crate) fn response_cache(&self) -> Option<CacheUse> {
        let available = self.available().ok()?;
        tensors::response_cache(&available.plan).map(ResponseCache::usage)
    }

    /// How many requests the graph is working on.
    pub(crate) fn open_sessions(&self) -> usize {
        self.available()
            .map_or(0, |available| available.plan.open_sessions())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is one assignment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
