//! Recordings: the timelines of sessions and, if requested, the payloads of their packets. Only
//! sessions that begin after the request are recorded. Recordings are kept for a while.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use graphmill_engine::{Error, Happening, Packet, Session, SidePackets, Timeline, codec};
use serde_json::{Value, json};

use super::{About, OpenSession, RecordingOptions, RecordingRule, Sessions, frames::unix_ms};
use crate::config::Redaction;

/// The events that are kept of a session, the last ones: some hundred tokens through a graph of
/// ten nodes, in some hundred kilobytes.
pub(crate) const MAX_EVENTS: usize = 8_192;

/// The bytes of packets that are kept of a session, the first ones.
const MAX_SESSION_BYTES: usize = 4 << 20;

/// Sessions that are recorded at once; others are not.
const MAX_OPEN: usize = 16;

/// Recordings that are kept; the oldest go first.
const MAX_KEPT: usize = 64;

/// The bytes of packets of all recordings that have ended; the oldest go first.
const MAX_BYTES: usize = 64 << 20;

/// The rules, by the names of graphs, and what was recorded, the oldest first.
#[derive(Default)]
pub(super) struct Recordings {
    rules: HashMap<String, RecordingRule>,
    kept: VecDeque<Arc<Recording>>,
}

impl Recordings {
    /// Begins the recording of a session, if it is to be recorded.
    pub(super) fn begin(
        &mut self,
        open: &Arc<OpenSession>,
        about: &About<'_>,
    ) -> Option<Arc<Recording>> {
        if self.rules.is_empty() && about.records.is_none() {
            return None;
        }
        self.rules.retain(|_, rule| rule.is_active());
        let mut rules = self.rules.iter_mut();
        let rule = rules.find(|(graph, _)| open.is_of(graph));
        let rule =
            rule.and_then(|(_, rule)| rule.takes(about.key.map(|key| &**key)).then_some(rule));
        let wanted = match (&about.records, rule) {
            (Some(wanted), _) => wanted.clone(),
            (None, Some(rule)) => {
                rule.sessions -= 1;
                rule.wanted.clone()
            }
            (None, None) => return None,
        };
        let is_open = |recording: &&Arc<Recording>| recording.ended().is_none();
        if self.kept.iter().filter(is_open).count() >= MAX_OPEN {
            tracing::info!(request = %about.request, "the session is not recorded: {MAX_OPEN} are, as many as may be at once");
            return None;
        }
        let recording = Arc::new(Recording::new(open, about.servable.text(), wanted));
        self.kept.push_back(Arc::clone(&recording));
        self.settle();
        Some(recording)
    }

    /// Lets the oldest go that are too many.
    fn settle(&mut self) {
        let bytes = |kept: &VecDeque<Arc<Recording>>| {
            let ended = kept.iter().filter(|it| it.ended().is_some());
            ended.map(|recording| recording.bytes()).sum::<usize>()
        };
        while self.kept.len() > MAX_KEPT || bytes(&self.kept) > MAX_BYTES {
            let oldest = self.kept.iter().position(|it| it.ended().is_some());
            let Some(oldest) = oldest else { return };
            self.kept.remove(oldest);
        }
    }
}

/// What was recorded of a session, or is being.
pub(crate) struct Recording {
    pub(crate) id: Arc<str>,
    pub(crate) name: String,
    graph: String,
    version: Option<u64>,
    text: Option<Arc<str>>,
    began: Instant,
    started: SystemTime,
    nodes: Vec<String>,
    streams: Vec<String>,
    redact: Arc<Redaction>,
    /// Lines of packets, where they are recorded.
    packets: Option<Mutex<Packets>>,
    ended: OnceLock<Ended>,
}

/// A recording that has ended.
pub(crate) struct Ended {
    pub(crate) timeline: Timeline,
    took: Duration,
    error: Option<String>,
}

#[derive(Default)]
struct Packets {
    lines: String,
    /// How many found no room.
    dropped: u64,
}

impl Recording {
    fn new(open: &OpenSession, text: Option<Arc<str>>, wanted: RecordingOptions) -> Self {
        let plan = open.plan();
        Self {
            id: Arc::clone(&open.id),
            name: open.name.clone(),
            graph: open.graph.clone(),
            version: open.version,
            text,
            began: open.began,
            started: open.started,
            nodes: plan.node_names().map(str::to_owned).collect(),
            streams: plan.streams().map(str::to_owned).collect(),
            redact: wanted.redact,
            packets: wanted.payloads.then(Mutex::default),
            ended: OnceLock::new(),
        }
    }

    fn is_of(&self, name: &str) -> bool {
        self.name == name || self.graph == name
    }

    /// Records a session that has not begun.
    pub(super) fn keep(
        self: Arc<Self>,
        session: &mut Session,
        sides: &SidePackets,
        sessions: Arc<Sessions>,
    ) {
        if self.packets.is_some() {
            for (name, packet) in sides.iter() {
                self.add(name, packet, true);
            }
            let recording = Arc::clone(&self);
            let streams: Vec<&str> = self.streams.iter().map(String::as_str).collect();
            let watched = session.watch(&streams, move |stream, packet| {
                recording.add(&recording.streams[stream], packet, false);
                true
            });
            // The plan has just these streams.
            let _ = watched;
        }
        session.keep_timeline(MAX_EVENTS, move |timeline, error| {
            self.end(timeline, error);
            sessions.lock().recordings.settle();
        });
    }

    fn end(&self, timeline: Timeline, error: Option<&Error>) {
        self.ended.get_or_init(|| Ended {
            timeline,
            took: self.began.elapsed(),
            error: error.map(ToString::to_string),
        });
    }

    fn packets(&self) -> Option<MutexGuard<'_, Packets>> {
        let packets = self.packets.as_ref()?;
        Some(packets.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes a packet down.
    fn add(&self, stream: &str, packet: &Packet, side: bool) {
        let Some(mut packets) = self.packets() else {
            return;
        };
        if packets.lines.len() >= MAX_SESSION_BYTES {
            packets.dropped += 1;
            return;
        }
        let mut payload = codec::encode(packet).unwrap_or_default();
        self.redact.value(&mut payload);
        let line = json!({
            "stream": stream,
            "timestamp": codec::timestamp_to_json(packet.time),
            "type": packet.type_info().name(),
            "payload": payload,
            "side": side,
        });
        let line = line.to_string();
        if packets.lines.len() + line.len() > MAX_SESSION_BYTES {
            packets.dropped += 1;
            return;
        }
        packets.lines.push_str(&line);
        packets.lines.push('\n');
    }

    fn bytes(&self) -> usize {
        self.packets().map_or(0, |packets| packets.lines.len())
    }

    /// What came of it, once the session has ended.
    pub(crate) fn ended(&self) -> Option<&Ended> {
        self.ended.get()
    }

    fn state(&self) -> &'static str {
        if self.ended().is_some() {
            "ended"
        } else {
            "open"
        }
    }

    /// In the list of recordings.
    pub(crate) fn json(&self) -> Value {
        let ended = self.ended();
        let took = ended.map_or_else(|| self.began.elapsed(), |ended| ended.took);
        json!({
            "id": self.id,
            "graph": self.name,
            "started_at_ms": unix_ms(self.started),
            "duration_ms": took.as_millis() as u64,
            "state": self.state(),
            "events": ended.map(|ended| ended.timeline.events.len()),
            "payloads": self.packets.is_some(),
            "error": ended.and_then(|ended| ended.error.as_deref()),
        })
    }

    /// The packets as lines of JSON, behind one that says what they are of; none where they were
    /// not recorded.
    pub(crate) fn lines(&self) -> Option<String> {
        let packets = self.packets()?;
        let mut text = self.text.as_deref().unwrap_or_default().to_owned();
        self.redact.text(&mut text);
        let head = json!({
            "graphmill_recording": 1,
            "graph": self.name,
            "version": self.version,
            "id": self.id,
            "state": self.state(),
            "dropped": packets.dropped,
            "text": text,
        });
        Some(format!("{head}\n{}", packets.lines))
    }

    /// What happened when.
    pub(crate) fn trace(&self, timeline: &Timeline) -> Value {
        json!({
            "id": self.id,
            "graph": self.name,
            "state": self.state(),
            "started_at_ms": unix_ms(self.started),
            "nodes": self.nodes,
            "events": trace_events(timeline, &self.nodes, &self.streams),
            "dropped": timeline.dropped,
            "error": self.ended().and_then(|ended| ended.error.as_deref()),
        })
    }

    /// The same for Chrome's and Perfetto's viewers: a thread for each node, and one for packets.
    pub(crate) fn chrome(&self, timeline: &Timeline) -> Value {
        let threads = self.nodes.iter().map(String::as_str).chain(["packets"]);
        let names = threads.enumerate().map(|(thread, name)| {
            json!({
                "ph": "M", "pid": 1, "tid": thread, "name": "thread_name", "args": { "name": name },
            })
        });
        let events = timeline.events.iter().map(|event| {
            let at = event.at.as_nanos() as f64 / 1e3;
            match event.what {
                Happening::Call { node, took, time } => json!({
                    "ph": "X", "pid": 1, "tid": node, "name": self.nodes[node], "cat": "call",
                    "ts": at, "dur": took.as_nanos() as f64 / 1e3,
                    "args": { "timestamp": time.map(codec::timestamp_to_json) },
                }),
                Happening::Packet { stream, time } => json!({
                    "ph": "i", "s": "t", "pid": 1, "tid": self.nodes.len(),
                    "name": self.streams[stream], "cat": "packet", "ts": at,
                    "args": { "timestamp": codec::timestamp_to_json(time) },
                }),
            }
        });
        let process = json!({
            "ph": "M", "pid": 1, "name": "process_name",
            "args": { "name": format!("{} {}", self.name, self.id) },
        });
        let events: Vec<Value> = [process].into_iter().chain(names).chain(events).collect();
        json!({ "displayTimeUnit": "ms", "traceEvents": events })
    }
}

/// What happened when in a session of a plan with these nodes and streams.
pub(crate) fn trace_events(
    timeline: &Timeline,
    nodes: &[String],
    streams: &[String],
) -> Vec<Value> {
    let events = timeline.events.iter().map(|event| {
        let at = event.at.as_micros() as u64;
        match event.what {
            Happening::Call { node, took, time } => json!({
                "t_us": at,
                "dur_us": took.as_micros() as u64,
                "node": nodes[node],
                "kind": "call",
                "timestamp": time.map(codec::timestamp_to_json),
            }),
            Happening::Packet { stream, time } => json!({
                "t_us": at,
                "stream": streams[stream],
                "kind": "packet",
                "timestamp": codec::timestamp_to_json(time),
            }),
        }
    });
    events.collect()
}

impl Sessions {
    /// Records coming sessions of a graph, in place of what was said before.
    pub(crate) fn record(&self, graph: &str, rule: RecordingRule) {
        let mut state = self.lock();
        state.recordings.rules.insert(graph.to_owned(), rule);
    }

    /// Records no more sessions of a graph from now on.
    pub(crate) fn record_no_more(&self, graph: &str) {
        self.lock().recordings.rules.remove(graph);
    }

    /// The rule of a graph, if it still counts, and what was recorded of it, the newest first.
    pub(crate) fn recordings(&self, graph: &str) -> (Option<RecordingRule>, Vec<Arc<Recording>>) {
        let state = self.lock();
        let rule = state.recordings.rules.get(graph);
        let rule = rule.filter(|rule| rule.is_active()).cloned();
        let kept = state.recordings.kept.iter().rev();
        (rule, kept.filter(|it| it.is_of(graph)).cloned().collect())
    }

    /// What was recorded last of a session of this id.
    pub(crate) fn recording(&self, id: &str) -> Option<Arc<Recording>> {
        let state = self.lock();
        let mut kept = state.recordings.kept.iter().rev();
        kept.find(|recording| *recording.id == *id).cloned()
    }
}
