//! Frames: figures of a graph or session over time, computed five times per second while there are
//! viewers, once for all of them.
//!
//! A viewer gets the last frame, and the changes since the frame that it has. A slow viewer misses
//! frames, and nothing is stored for it.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use futures_util::future::join_all;
use graphmill_engine::{Activity, Plan};
use serde_json::{Value, json};
use tokio::{sync::watch, time::sleep};

use super::{OpenSession, Sessions, run_on_thread};
use crate::servable::{ResolvedGraph, ServedGraphs};

/// Shortest time between two frames.
const PERIOD: Duration = Duration::from_millis(200);

/// Factor for the pause after a frame, times its computing time. So observing very many sessions
/// takes a small part of a core.
const REST: u32 = 10;

/// The thing that viewers follow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FollowTarget {
    /// A graph: its open sessions and its totals.
    Graph(String),
    /// An open session, by its id.
    Session(Arc<str>),
}

/// Channels of frames, by the things that viewers follow now.
pub(super) type Hubs = HashMap<FollowTarget, watch::Sender<Option<Arc<Frame>>>>;

/// The figures at one moment.
#[derive(Clone)]
pub(crate) struct Frame {
    names: Arc<Names>,
    at: SystemTime,
    sessions: usize,
    nodes: Vec<NodeNumbers>,
    edges: Vec<EdgeNumbers>,
}

/// Names for the figures of a plan.
struct Names {
    /// Plan, not kept in memory by viewers.
    plan: Weak<Plan>,
    nodes: Vec<String>,
    /// Stream, node and input of each edge.
    edges: Vec<(String, String, String)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct NodeNumbers {
    calls: u64,
    errors: u64,
    busy: Duration,
    /// Number of sessions by [`Activity`].
    states: [u32; Activity::ALL.len()],
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct EdgeNumbers {
    queued: usize,
    bound: Option<usize>,
    packets: u64,
}

impl Names {
    fn new(plan: &Arc<Plan>) -> Arc<Self> {
        let nodes: Vec<String> = plan.node_names().map(str::to_owned).collect();
        let streams: Vec<&str> = plan.streams().collect();
        let edges = plan.edges().map(|edge| {
            let (stream, node) = (streams[edge.stream], &nodes[edge.node]);
            (stream.to_owned(), node.clone(), edge.port)
        });
        Arc::new(Self {
            plan: Arc::downgrade(plan),
            edges: edges.collect(),
            nodes,
        })
    }

    fn are_of(&self, plan: &Arc<Plan>) -> bool {
        std::ptr::eq(self.plan.as_ptr(), Arc::as_ptr(plan))
    }
}

impl Frame {
    /// Creates a frame of zeros. It shares the names of the frame `before`, if that is of the same
    /// plan.
    fn new(plan: &Arc<Plan>, before: Option<&Self>) -> Self {
        let before = before.filter(|before| before.names.are_of(plan));
        let edges = plan.edges().map(|edge| EdgeNumbers {
            bound: edge.bound,
            ..EdgeNumbers::default()
        });
        Self {
            names: before.map_or_else(|| Names::new(plan), |before| Arc::clone(&before.names)),
            at: SystemTime::now(),
            sessions: 0,
            nodes: vec![NodeNumbers::default(); plan.node_names().len()],
            edges: edges.collect(),
        }
    }

    /// Creates a frame of a graph's totals and its open sessions.
    async fn for_graph(plan: &Arc<Plan>, open: &[Arc<OpenSession>], before: Option<&Self>) -> Self {
        // The totals are read first: a session that ends after that is missed in one frame, but not
        // counted twice.
        let totals = plan.totals();
        let mut frame = Self::new(plan, before);
        for (node, total) in frame.nodes.iter_mut().zip(&totals.nodes) {
            (node.calls, node.errors, node.busy) = (total.calls, total.errors, total.busy);
        }
        if !totals.packets.is_empty() {
            for (edge, of) in frame.edges.iter_mut().zip(plan.edges()) {
                edge.packets = totals.packets[of.stream];
            }
        }
        let seen = open.iter().map(|session| session.see());
        for seen in join_all(seen).await.into_iter().flatten() {
            frame.add(&seen);
        }
        frame.is_not_behind(before);
        frame
    }

    /// Creates a frame of a session; `None` after its end.
    async fn for_session(session: &OpenSession, before: Option<&Self>) -> Option<Self> {
        let seen = session.see().await?;
        let mut frame = Self::new(session.plan(), before);
        frame.add(&seen);
        for (edge, seen) in frame.edges.iter_mut().zip(&seen.edges) {
            edge.bound = seen.bound;
        }
        frame.is_not_behind(before);
        Some(frame)
    }

    /// Returns the last frame of a session: all nodes are closed, except one that has failed.
    fn ended(mut self, session: &OpenSession) -> Self {
        let failed = session.observer.ended().and_then(Result::err);
        let failed = failed.and_then(|error| error.node);
        for (node, name) in self.nodes.iter_mut().zip(&self.names.nodes) {
            let has_failed = failed.as_deref() == Some(name);
            node.errors = u64::from(has_failed);
            node.states = Default::default();
            node.states[Activity::Failed as usize] = u32::from(has_failed);
            node.states[Activity::Closed as usize] = u32::from(!has_failed);
        }
        self.edges.iter_mut().for_each(|edge| edge.queued = 0);
        self.sessions = 0;
        self.at = SystemTime::now();
        self
    }

    fn add(&mut self, view: &graphmill_engine::Snapshot) {
        self.sessions += 1;
        for (node, seen) in self.nodes.iter_mut().zip(&view.nodes) {
            node.calls += seen.calls;
            node.busy += seen.busy;
            node.states[seen.activity as usize] += 1;
        }
        for (edge, seen) in self.edges.iter_mut().zip(&view.edges) {
            edge.queued += seen.queued;
            edge.packets += seen.packets;
        }
    }

    /// Raises counts to those of the frame before, as a session that ends is missed for a moment.
    fn is_not_behind(&mut self, before: Option<&Self>) {
        let Some(before) = before.filter(|before| before.is_alike(self)) else {
            return;
        };
        for (node, before) in self.nodes.iter_mut().zip(&before.nodes) {
            node.calls = node.calls.max(before.calls);
            node.errors = node.errors.max(before.errors);
            node.busy = node.busy.max(before.busy);
        }
        for (edge, before) in self.edges.iter_mut().zip(&before.edges) {
            edge.packets = edge.packets.max(before.packets);
        }
    }

    /// Returns true if both are of the same plan.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.names, &other.names)
    }

    fn is_same(&self, other: &Self) -> bool {
        self.is_alike(other)
            && (self.sessions, &self.nodes, &self.edges)
                == (other.sessions, &other.nodes, &other.edges)
    }

    /// Writes the frame as JSON, with its number. Nodes and edges that are as in the frame `before`
    /// are left out.
    pub(crate) fn json(&self, seq: u64, before: Option<&Self>) -> Value {
        let is_new = |node: usize| before.is_none_or(|it| it.nodes[node] != self.nodes[node]);
        let nodes = self.nodes.iter().zip(&self.names.nodes).enumerate();
        let nodes = nodes.filter(|(place, _)| is_new(*place));
        let nodes = nodes.map(|(_, (numbers, name))| numbers.json(name));
        let is_new = |edge: usize| before.is_none_or(|it| it.edges[edge] != self.edges[edge]);
        let edges = self.edges.iter().zip(&self.names.edges).enumerate();
        let edges = edges.filter(|(place, _)| is_new(*place));
        let edges = edges.map(|(_, (numbers, (stream, node, input)))| {
            json!({
                "stream": stream, "node": node, "input": input,
                "queued": numbers.queued, "bound": numbers.bound, "packets": numbers.packets,
            })
        });
        json!({
            "seq": seq,
            "at_ms": unix_ms(self.at),
            "sessions": self.sessions,
            "nodes": nodes.collect::<Vec<_>>(),
            "edges": edges.collect::<Vec<_>>(),
        })
    }
}

impl NodeNumbers {
    fn json(&self, name: &str) -> Value {
        let states = Activity::ALL.into_iter().zip(self.states);
        let states = states.filter(|(_, sessions)| *sessions > 0);
        let states = states.map(|(state, sessions)| (state.as_str().to_owned(), json!(sessions)));
        json!({
            "name": name,
            "calls": self.calls,
            "errors": self.errors,
            "busy_us": self.busy.as_micros() as u64,
            "states": states.collect::<serde_json::Map<_, _>>(),
        })
    }
}

/// Converts a time to milliseconds since 1970.
pub(super) fn unix_ms(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

impl Sessions {
    /// Returns the channel of frames of a graph or session. It is closed when that is gone.
    pub(crate) fn follow(
        self: &Arc<Self>,
        what: &FollowTarget,
        served: &Arc<ServedGraphs>,
    ) -> watch::Receiver<Option<Arc<Frame>>> {
        let mut state = self.lock();
        if let Some(hub) = state.followed.get(what) {
            return hub.subscribe();
        }
        let (hub, frames) = watch::channel(None);
        state.followed.insert(what.clone(), hub);
        drop(state);
        let making = make_frames(Arc::clone(self), what.clone(), Arc::clone(served));
        tokio::spawn(making);
        frames
    }

    /// Sends a frame if it is a new one. Returns false if there are no viewers any more; the
    /// channel is removed then.
    fn show(&self, what: &FollowTarget, frame: Option<Arc<Frame>>) -> bool {
        let mut state = self.lock();
        let Some(hub) = state.followed.get(what) else {
            return false;
        };
        if hub.receiver_count() == 0 {
            state.followed.remove(what);
            return false;
        }
        if let Some(frame) = frame {
            hub.send_if_modified(|shown| {
                let is_new = shown.as_ref().is_none_or(|shown| !shown.is_same(&frame));
                if is_new {
                    *shown = Some(frame);
                }
                is_new
            });
        }
        true
    }
}

/// Creates frames until there are no viewers, or no more frames.
async fn make_frames(sessions: Arc<Sessions>, what: FollowTarget, served: Arc<ServedGraphs>) {
    let mut before: Option<Arc<Frame>> = None;
    let session = match &what {
        FollowTarget::Session(id) => sessions.get(id),
        FollowTarget::Graph(_) => None,
    };
    loop {
        let began = Instant::now();
        let (frame, is_last) = match (&what, &session) {
            (FollowTarget::Graph(name), _) => {
                let Some(named) = served.now().named(name, None) else {
                    break;
                };
                let next = next_graph_frame(Arc::clone(&sessions), named, before.clone());
                (run_on_thread(next).await, false)
            }
            (_, Some(session)) => {
                let next = next_session_frame(Arc::clone(session), before.clone());
                let (frame, is_last) = run_on_thread(next).await;
                (Some(frame), is_last)
            }
            (_, None) => break,
        };
        let frame = frame.map(Arc::new);
        if !sessions.show(&what, frame.clone()) {
            return;
        }
        if is_last {
            break;
        }
        before = frame.or(before);
        sleep(PERIOD.max(began.elapsed() * REST)).await;
    }
    let hub = sessions.lock().followed.remove(&what);
    // Closes the channel, which ends the streams of viewers.
    drop(hub);
}

/// Creates the next frame of a graph; `None` if it is not in memory now. It may come back.
async fn next_graph_frame(
    sessions: Arc<Sessions>,
    named: ResolvedGraph,
    before: Option<Arc<Frame>>,
) -> Option<Frame> {
    let plan = named.servable.plan().ok()?;
    let mut open = sessions.all();
    open.retain(|session| Arc::ptr_eq(session.plan(), &plan));
    Some(Frame::for_graph(&plan, &open, before.as_deref()).await)
}

/// Creates the next frame of a session, and true if it is the last.
async fn next_session_frame(
    session: Arc<OpenSession>,
    before: Option<Arc<Frame>>,
) -> (Frame, bool) {
    if let Some(frame) = Frame::for_session(&session, before.as_deref()).await {
        return (frame, false);
    }
    let last = before.as_deref().cloned();
    let last = last.unwrap_or_else(|| Frame::new(session.plan(), None));
    (last.ended(&session), true)
}
