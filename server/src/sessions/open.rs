//! One open session, as operators see it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use graphmill_engine::{Activity, EdgeView, NodeView, Plan, View, Viewer, Why};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::About;

/// How long a session may take to answer before it counts as one that computes. One that is not
/// inside of a node answers in microseconds.
const PATIENCE: Duration = Duration::from_millis(50);

/// Time that a session that cannot go on by itself stands still before it is called stalled.
const STALLED: Duration = Duration::from_secs(5);

/// A session that is open.
pub(crate) struct OpenSession {
    pub(crate) id: Arc<str>,
    /// The name under which just its graph is served: `graph`, or `graph@version`.
    pub(crate) name: String,
    pub(crate) graph: String,
    pub(crate) version: Option<u64>,
    pub(crate) request: Arc<str>,
    pub(crate) key: Option<Arc<str>>,
    pub(crate) label: String,
    pub(crate) began: Instant,
    pub(crate) started: SystemTime,
    pub(crate) viewer: Viewer,
    /// View of the session when it last answered.
    last: Mutex<Option<View>>,
}

impl OpenSession {
    pub(super) fn new(id: Arc<str>, viewer: Viewer, about: &About<'_>) -> Self {
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
            viewer,
            last: Mutex::default(),
        }
    }

    /// Whether it is one of the graph, or version of a graph, of this name.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        self.name == name || self.graph == name
    }

    pub(crate) fn plan(&self) -> &Arc<Plan> {
        self.viewer.plan()
    }

    /// What it does now; of one that does not answer, what it did before, and in which node it is.
    /// None once it has ended.
    pub(crate) async fn see(&self) -> Option<View> {
        let answer = timeout(PATIENCE, self.viewer.look()).await;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(view) = answer {
            last.clone_from(&view);
            return view;
        }
        let mut view = last.clone().unwrap_or_else(|| nothing(self.plan()));
        drop(last);
        let inside = self.viewer.inside();
        if let Some(node) = inside.and_then(|node| view.nodes.get_mut(node)) {
            node.activity = Activity::Running;
        }
        Some(view)
    }

    /// What it waits for; none if it does not say within this time.
    pub(crate) async fn why(&self, within: Duration) -> Option<Why> {
        timeout(within, self.viewer.why()).await.ok()
    }

    /// What it waits for, as soon as it can be told.
    pub(crate) async fn why_now(&self) -> Option<Why> {
        self.why(PATIENCE).await
    }

    /// The name of a node.
    pub(crate) fn node(&self, node: usize) -> &str {
        self.plan().node_names().nth(node).unwrap_or_default()
    }

    /// Why it cannot be asked, in a sentence.
    pub(crate) fn silence(&self) -> String {
        match self.viewer.inside() {
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

    /// Returns whether it stands still with something on its way and cannot go on by itself, and
    /// the reason, or what else is to be said of it, in a sentence.
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

    /// In the list of sessions.
    pub(crate) fn json(&self, seen: &View, why: Option<&Why>) -> Value {
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

/// A session that has not begun.
fn nothing(plan: &Plan) -> View {
    let node = NodeView {
        activity: Activity::Idle,
        calls: 0,
        busy: Duration::ZERO,
    };
    let edges = plan.edges().map(|edge| EdgeView {
        queued: 0,
        bound: edge.bound,
        packets: 0,
    });
    View {
        nodes: vec![node; plan.node_names().len()],
        edges: edges.collect(),
    }
}
