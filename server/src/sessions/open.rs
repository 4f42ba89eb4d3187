//! An open session, for observation by operators, and the thread that observes it.

use std::{
    future, panic,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use graphmill_engine::{
    Activity, EdgeSnapshot, NodeSnapshot, Plan, SessionObserver, Snapshot, Why,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{runtime::Handle, task, time::timeout};

use super::About;

/// Time for a session to answer before it counts as computing. Outside of a node, it answers in
/// microseconds.
const PATIENCE: Duration = Duration::from_millis(50);

/// Time without progress after which a session that cannot continue by itself counts as stalled.
const STALLED: Duration = Duration::from_secs(5);

/// An open session with its names and its viewer.
pub(crate) struct OpenSession {
    pub(crate) id: Arc<str>,
    /// Name of its graph: `graph`, or `graph@version`.
    pub(crate) name: String,
    pub(crate) graph: String,
    pub(crate) version: Option<u64>,
    pub(crate) request: Arc<str>,
    pub(crate) key: Option<Arc<str>>,
    pub(crate) label: String,
    pub(crate) began: Instant,
    pub(crate) started: SystemTime,
    pub(crate) observer: SessionObserver,
    /// Last view that the session returned.
    last: Mutex<Option<Snapshot>>,
}

impl OpenSession {
    pub(super) fn new(id: Arc<str>, observer: SessionObserver, about: &About<'_>) -> Self {
        Self {
            id,
            name: about.servable.name().to_owned(),
            graph: about.servable.graph().to_owned(),
            version: about.servable.version(),
            request: Arc::clone(about.request),
            key: about.key.cloned(),
            label: about.label.to_owned(),
            began: Instant::now(),
            started: SystemTime::now(),
            observer,
            last: Mutex::default(),
        }
    }

    /// Returns true if its graph, or the version of it, has this name.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        self.name == name || self.graph == name
    }

    pub(crate) fn plan(&self) -> &Arc<Plan> {
        self.observer.plan()
    }

    /// Returns its current view. If it does not answer, returns its last view with the node that it
    /// is in. `None` after its end.
    pub(crate) async fn see(&self) -> Option<Snapshot> {
        let answer = timeout(PATIENCE, self.observer.snapshot()).await;
        let mut last = self.last.lock();
        if let Ok(view) = answer {
            last.clone_from(&view);
            return view;
        }
        let mut view = last.clone().unwrap_or_else(|| nothing(self.plan()));
        drop(last);
        let inside = self.observer.inside();
        if let Some(node) = inside.and_then(|node| view.nodes.get_mut(node)) {
            node.activity = Activity::Running;
        }
        Some(view)
    }

    /// Returns what it waits for; `None` if it does not answer in time.
    pub(crate) async fn why(&self, within: Duration) -> Option<Why> {
        timeout(within, self.observer.why()).await.ok()
    }

    /// Returns what it waits for, if it answers at once.
    pub(crate) async fn why_now(&self) -> Option<Why> {
        self.why(PATIENCE).await
    }

    /// Returns the name of a node.
    pub(crate) fn node(&self, node: usize) -> &str {
        self.plan().node_names().nth(node).unwrap_or_default()
    }

    /// Explains in a sentence why it does not answer.
    pub(crate) fn silence(&self) -> String {
        match self.observer.inside() {
            Some(node) => format!(
                "`{}` computes in the session's own task, and the session answers after that",
                self.node(node)
            ),
            None => {
                "the session does not run now: its client reads too slowly, or all threads are busy"
                    .to_owned()
            }
        }
    }

    /// Returns true if it cannot continue by itself although packets are on their way, and a
    /// sentence with the reason or its state.
    fn stalled(&self, why: Option<&Why>) -> (bool, String) {
        let Some(why) = why else {
            return (false, self.silence());
        };
        let Some(root) = why.roots().next() else {
            let said = why.to_string();
            return (false, said.lines().collect::<Vec<_>>().join("; "));
        };
        let waits = why.chains.iter().flatten().chain(&why.nodes);
        let moved = waits.filter_map(|wait| wait.since).min();
        let since = moved.unwrap_or_else(|| self.began.elapsed());
        (why.is_stuck() && since >= STALLED, root.to_string())
    }

    /// Returns the session as an element of the list of sessions.
    pub(crate) fn json(&self, seen: &Snapshot, why: Option<&Why>) -> Value {
        let (stalled, why) = self.stalled(why);
        let nodes = self.plan().node_names().zip(&seen.nodes);
        let nodes = nodes.map(|(name, node)| json!({ "name": name, "state": node.activity }));
        json!({
            "id": self.id,
            "graph": self.name,
            "version": self.version,
            "request_id": self.request,
            "key": self.key,
            "label": self.label,
            "age_ms": self.began.elapsed().as_millis() as u64,
            "stalled": stalled,
            "why": why,
            "nodes": nodes.collect::<Vec<_>>(),
        })
    }
}

/// Returns the view of a session that has not started.
fn nothing(plan: &Plan) -> Snapshot {
    let node = NodeSnapshot {
        activity: Activity::Idle,
        calls: 0,
        busy: Duration::ZERO,
    };
    let edges = plan.edges().map(|edge| EdgeSnapshot {
        queued: 0,
        bound: edge.bound,
        packets: 0,
    });
    Snapshot {
        nodes: vec![node; plan.node_names().len()],
        edges: edges.collect(),
    }
}

/// Runs `look`, which queries sessions, on a thread that runs nothing else.
///
/// A session answers in its own task, and may compute there next. The answer would wake a task of
/// the runtime, which tokio may bind to the session's thread (its LIFO slot, which no other thread
/// can take from). That task would wait until the session has computed.
pub(crate) async fn run_on_thread<T: Send + 'static>(
    look: impl Future<Output = T> + Send + 'static,
) -> T {
    let runtime = Handle::current();
    match task::spawn_blocking(move || runtime.block_on(look)).await {
        Ok(seen) => seen,
        Err(error) if error.is_panic() => panic::resume_unwind(error.into_panic()),
        // The runtime ends, and drops this task.
        Err(_) => future::pending().await,
    }
}
