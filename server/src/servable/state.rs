//! A graph, or a version of one, and its state.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use arc_swap::{ArcSwap, ArcSwapOption};
use graphmill_engine::{FileStamps, Plan, Resource};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use super::{
    demand::MAX_WAITING,
    load::GraphSources,
    state_name::{LastFailure, State, StateName},
    usage::{GraphUsage, InUse},
};
use crate::{
    config::{GenerateForm, GraphEntry, Serving},
    errors::{Cause, Failure},
};

/// Notifies waiting requests of each change of a graph's state or of the list.
pub(super) type ChangeNotifier = Arc<watch::Sender<()>>;

/// Time after a failed load in which an on-demand graph fails its requests. After that, a request
/// loads it again. Failing loads take time, too.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// A graph in a configuration.
pub(crate) struct Servable {
    id: String,
    /// Entry of the graph in the configuration.
    entry: GraphEntry,
    /// Settings of the entry, with the defaults of the server.
    serving: Serving,
    state: ArcSwap<State>,
    /// True if its first load is not awaited any more.
    settled: AtomicBool,
    /// True while an operator has unloaded it until the next request.
    sleeps: AtomicBool,
    /// True while an operator has unloaded it until it is loaded by its name.
    kept_out: AtomicBool,
    /// Locked while the state is read and then changed.
    changing: Mutex<()>,
    changed: ChangeNotifier,
    /// Sources of its last load or check.
    sources: ArcSwap<GraphSources>,
    /// Start of the running load, or of the last one.
    began: Mutex<Option<Instant>>,
    /// Duration of its last successful load.
    took: Mutex<Option<Duration>>,
    /// Reason why its last load failed; `None` if it succeeded.
    last_failure: ArcSwapOption<String>,
    pub(super) usage: Arc<GraphUsage>,
    /// Places for requests that wait for it.
    pub(super) waiting_places: Arc<Semaphore>,
}

impl Servable {
    pub(super) fn new(entry: GraphEntry, serving: Serving, changed: ChangeNotifier) -> Self {
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
            sources: ArcSwap::default(),
            began: Mutex::default(),
            took: Mutex::default(),
            last_failure: ArcSwapOption::empty(),
            usage: Arc::default(),
            waiting_places: Arc::new(Semaphore::new(MAX_WAITING)),
        }
    }

    /// Returns the name that selects exactly this graph: `graph`, or `graph@version`.
    pub(crate) fn name(&self) -> &str {
        &self.id
    }

    /// Returns the entry in the configuration.
    pub(super) fn entry(&self) -> &GraphEntry {
        &self.entry
    }

    /// Returns the form of its answers at `/generate`, if configured.
    pub(crate) fn generate_form(&self) -> Option<GenerateForm> {
        self.entry.serving.generate_form
    }

    /// Returns the path of its file, as in the configuration.
    pub(crate) fn file(&self) -> &Path {
        &self.entry.file
    }

    /// Returns the name of the graph, without the version.
    pub(crate) fn graph(&self) -> &str {
        &self.entry.name
    }

    /// Returns its version; `None` for a graph without versions.
    pub(crate) fn version(&self) -> Option<u64> {
        self.entry.version
    }

    /// Returns true if the server is ready without it.
    pub(crate) fn is_optional(&self) -> bool {
        self.serving.optional
    }

    pub(crate) fn aliases(&self) -> &[String] {
        &self.entry.aliases
    }

    /// Returns true if it is always listed, because its errors do not affect other graphs.
    pub(crate) fn is_independent(&self) -> bool {
        self.serving.independent
    }

    /// Returns the time limit for requests that set none.
    pub(crate) fn response_timeout(&self) -> Option<Duration> {
        self.serving.response_timeout
    }

    /// Returns true if a request loads it.
    pub(crate) fn loads_on_demand(&self) -> bool {
        let on_demand = self.serving.on_demand || self.idle_unload().is_some() || self.sleeps();
        on_demand && !self.is_kept_out()
    }

    /// Returns true if only a load by its name brings it back.
    pub(crate) fn is_kept_out(&self) -> bool {
        self.kept_out.load(Relaxed)
    }

    /// Keeps it unloaded until it is loaded by its name. Returns false if it is loaded or being
    /// loaded.
    pub(super) fn keep_out(&self, reason: &str) -> bool {
        let _changing = self.changing.lock();
        let state = self.state_name();
        let is_out = state.is_unloaded() || state == StateName::Failed;
        if is_out {
            self.kept_out.store(true, Relaxed);
            self.set_unloaded(reason);
        }
        is_out
    }

    /// Allows requests to load it again after it was kept out.
    pub(crate) fn let_in(&self) {
        if self.kept_out.swap(false, Relaxed) {
            self.record_unloading(false);
        }
    }

    /// Returns true if an operator has unloaded it until the next request.
    pub(crate) fn sleeps(&self) -> bool {
        self.sleeps.load(Relaxed) && !self.is_kept_out()
    }

    /// Records that an operator unloads it: until a request, or until a load by its name.
    pub(super) fn record_unloading(&self, stays_out: bool) {
        let noted = if stays_out {
            &self.kept_out
        } else {
            &self.sleeps
        };
        noted.store(true, Relaxed);
    }

    /// Returns true if it is not loaded with the server.
    pub(super) fn starts_unloaded(&self) -> bool {
        self.serving.on_demand
    }

    /// Returns the idle time after which it is unloaded; `None` if never.
    pub(super) fn idle_unload(&self) -> Option<Duration> {
        self.serving.idle_unload.filter(|time| !time.is_zero())
    }

    /// Returns true if its first load has ended, or it is on demand.
    pub(super) fn is_settled(&self) -> bool {
        self.settled.load(Relaxed)
    }

    /// Returns its last sources; empty ones before its first load or check.
    pub(super) fn sources(&self) -> Arc<GraphSources> {
        self.sources.load_full()
    }

    /// Returns the files of its last sources.
    pub(crate) fn files(&self) -> FileStamps {
        self.sources().seen.clone()
    }

    /// Returns the text of its graph file, if known.
    pub(crate) fn text(&self) -> Option<Arc<str>> {
        self.sources().text.clone()
    }

    pub(super) fn set_sources(&self, sources: GraphSources) {
        self.sources.store(Arc::new(sources));
    }

    /// Records the start of its load.
    pub(super) fn begin_load(&self) {
        *self.began.lock() = Some(Instant::now());
        if self.state_name() != StateName::Waiting {
            self.set_state(State::Loading);
        }
    }

    /// Returns the start of its last load.
    pub(super) fn began(&self) -> Option<Instant> {
        *self.began.lock()
    }

    /// Returns the duration of its last successful load.
    pub(super) fn load_time(&self) -> Option<Duration> {
        *self.took.lock()
    }

    pub(super) fn set_load_time(&self, time: Duration) {
        *self.took.lock() = Some(time);
    }

    /// Returns the reason why its last load failed; `None` if it succeeded.
    pub(super) fn last_failure(&self) -> Option<Arc<String>> {
        self.last_failure.load_full()
    }

    pub(crate) fn state_name(&self) -> StateName {
        self.state.load().name()
    }

    /// Returns the reason why the graph is not in memory, if known.
    pub(crate) fn failure(&self) -> Option<Arc<str>> {
        self.state.load().reason().map(Arc::clone)
    }

    /// Returns the time since when it answers, in seconds since 1970; `None` if it does not.
    pub(crate) fn available_since(&self) -> Option<u64> {
        match &**self.state.load() {
            State::Available(_, since) => Some(*since),
            _ => None,
        }
    }

    /// Returns the plan for opening a session, or the failure of a request for the graph.
    pub(crate) fn plan(&self) -> Result<Arc<Plan>, Failure> {
        let name = &self.id;
        let loading = |message| {
            let failure = Failure::new(Cause::Loading, message);
            Err(failure.after(self.time_left()))
        };
        match &**self.state.load() {
            State::Available(plan, _) => Ok(Arc::clone(plan)),
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

    /// Returns the plan with a guard. The graph stays in memory as long as the guard exists.
    pub(super) fn acquire(&self) -> Result<(Arc<Plan>, InUse), Failure> {
        let _changing = self.changing.lock();
        let plan = self.plan()?;
        Ok((plan, self.usage.begin()))
    }

    /// Returns the resources of this kind that its nodes share; none if it is not available.
    pub(super) fn resources<R: Resource>(&self) -> Vec<Arc<R>> {
        self.plan().map_or(Vec::new(), |plan| plan.resources())
    }

    pub(super) fn set_available(&self, plan: Arc<Plan>) {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        self.last_failure.store(None);
        self.sleeps.store(false, Relaxed);
        self.kept_out.store(false, Relaxed);
        self.usage.touch();
        self.set_state(State::Available(plan, since));
    }

    pub(super) fn set_waiting(&self, reason: &str) {
        self.set_state(State::Waiting(reason.into()));
    }

    pub(super) fn set_failed(&self, reason: &str, for_memory: bool) {
        self.last_failure.store(Some(Arc::new(reason.to_owned())));
        self.set_state(State::Failed(LastFailure {
            reason: reason.into(),
            for_memory,
            at: Instant::now(),
        }));
    }

    /// Changes its state to unloaded.
    pub(super) fn set_unloaded(&self, reason: &str) {
        self.set_state(State::Unloaded(reason.into()));
    }

    fn set_state(&self, state: State) {
        if !matches!(state, State::Listed | State::Loading | State::Unloading) {
            self.settled.store(true, Relaxed);
        }
        self.state.store(Arc::new(state));
        self.changed.send_replace(());
    }

    /// Claims the load of the graph. Returns true for the first caller.
    pub(super) fn is_to_be_loaded(&self) -> bool {
        let _changing = self.changing.lock();
        let wanted = match &**self.state.load() {
            State::Listed | State::Unloaded(_) => true,
            State::Failed(failed) => failed.at.elapsed() >= RETRY_AFTER,
            _ => false,
        };
        if wanted && self.loads_on_demand() {
            *self.began.lock() = None;
            self.set_state(State::Loading);
            return true;
        }
        false
    }

    /// Takes the plan of an available graph if `may` agrees. The graph is unloading after that.
    pub(super) fn take_plan(&self, may: impl FnOnce() -> bool) -> Option<Arc<Plan>> {
        let _changing = self.changing.lock();
        let plan = self.plan().ok()?;
        if !may() {
            return None;
        }
        self.set_state(State::Unloading);
        Some(plan)
    }
}
