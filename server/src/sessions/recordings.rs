//! Recordings: the timelines of sessions and, if requested, the payloads of their packets. Only
//! sessions that begin after the request are recorded. Recordings are kept for a while.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, OnceLock},
    time::{Duration, Instant, SystemTime},
};

use graphmill_engine::{Error, Happening, Packet, Session, SidePackets, Timeline, codec};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use super::{About, OpenSession, RecordingOptions, RecordingRule, Sessions, frames::unix_ms};
use crate::config::Redaction;

/// Maximum number of events of a session; the last ones are kept. It is enough for some hundred
/// tokens through a graph of ten nodes, in some hundred kilobytes.
pub(crate) const MAX_EVENTS: usize = 8_192;

/// Maximum number of bytes of packets of a session; the first ones are kept.
const MAX_SESSION_BYTES: usize = 4 << 20;

/// Maximum number of sessions that are recorded at the same time. Others are not recorded.
const MAX_OPEN: usize = 16;

/// Maximum number of stored recordings. The oldest are removed first.
const MAX_KEPT: usize = 64;

/// Maximum number of bytes of packets of all finished recordings. The oldest are removed first.
const MAX_BYTES: usize = 64 << 20;

/// Rules by the names of graphs, and recordings, oldest first.
#[derive(Default)]
pub(super) struct Recordings {
    rules: HashMap<String, RecordingRule>,
    kept: VecDeque<Arc<Recording>>,
}

impl Recordings {
    /// Starts the recording of a session, if a rule or its request asks for it.
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
            tracing::info!(request = %about.request, "the session is not recorded: the limit of {MAX_OPEN} concurrent recordings is reached");
            return None;
        }
        let recording = Arc::new(Recording::new(open, about.servable.text(), wanted));
        self.kept.push_back(Arc::clone(&recording));
        self.settle();
        Some(recording)
    }

    /// Removes the oldest recordings above the limits.
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

/// A finished or running recording of a session.
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
    /// Lines of packets; `None` if payloads are not recorded.
    packets: Option<Mutex<Packets>>,
    ended: OnceLock<FinishedRecording>,
}

/// The result of a finished recording.
pub(crate) struct FinishedRecording {
    pub(crate) timeline: Timeline,
    took: Duration,
    error: Option<String>,
}

#[derive(Default)]
struct Packets {
    lines: String,
    /// Number of packets that did not fit.
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

    /// Records a session that has not started.
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
            // The plan has exactly these streams.
            let _ = session.observe_packets(&streams, move |stream, packet| {
                recording.add(&recording.streams[stream], packet, false);
                true
            });
        }
        session.keep_timeline(MAX_EVENTS, move |timeline, error| {
            self.end(timeline, error);
            sessions.lock().recordings.settle();
        });
    }

    fn end(&self, timeline: Timeline, error: Option<&Error>) {
        self.ended.get_or_init(|| FinishedRecording {
            timeline,
            took: self.began.elapsed(),
            error: error.map(ToString::to_string),
        });
    }

    fn packets(&self) -> Option<MutexGuard<'_, Packets>> {
        let packets = self.packets.as_ref()?;
        Some(packets.lock())
    }

    /// Records a packet as a line.
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

    /// Returns the result; `None` while the session runs.
    pub(crate) fn ended(&self) -> Option<&FinishedRecording> {
        self.ended.get()
    }

    fn state(&self) -> &'static str {
        self.ended().map_or("open", |_| "ended")
    }

    /// Returns the recording as an element of the list of recordings.
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

    /// Returns the packets as lines of JSON, after a line with the head; `None` if payloads were
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

    /// Returns the timeline as JSON.
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

    /// Returns the timeline for the viewers of Chrome and Perfetto, with a thread for each node and
    /// one for packets.
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

/// Returns the events of a timeline as JSON, with the names of these nodes and streams.
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
    /// Sets the recording rule of a graph, replacing an earlier one.
    pub(crate) fn record(&self, graph: &str, rule: RecordingRule) {
        let mut state = self.lock();
        state.recordings.rules.insert(graph.to_owned(), rule);
    }

    /// Removes the recording rule of a graph.
    pub(crate) fn record_no_more(&self, graph: &str) {
        self.lock().recordings.rules.remove(graph);
    }

    /// Returns the rule of a graph if it is active, and the graph's recordings, newest first.
    pub(crate) fn recordings(&self, graph: &str) -> (Option<RecordingRule>, Vec<Arc<Recording>>) {
        let state = self.lock();
        let rule = state.recordings.rules.get(graph);
        let rule = rule.filter(|rule| rule.is_active()).cloned();
        let kept = state.recordings.kept.iter().rev();
        (rule, kept.filter(|it| it.is_of(graph)).cloned().collect())
    }

    /// Returns the last recording of a session with this id.
    pub(crate) fn recording(&self, id: &str) -> Option<Arc<Recording>> {
        let state = self.lock();
        let mut kept = state.recordings.kept.iter().rev();
        kept.find(|recording| *recording.id == *id).cloned()
    }
}
