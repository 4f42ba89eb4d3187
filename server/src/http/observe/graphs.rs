//! Running graphs: a list, each graph with its nodes, the figures of a graph or session as a
//! snapshot and then as changes, and the packets of streams.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::header,
    response::IntoResponse as _,
};
use bytes::{Bytes, BytesMut};
use clap::ValueEnum as _;
use futures_util::stream;
use graphmill_engine::{Packet, Plan, codec, shortened};
use serde_json::{Value, json};
use tokio::{sync::watch, task::spawn_blocking};

use super::{rate, sessions};
use crate::{
    app::state::App,
    config::Observation,
    errors::{Cause, Failure, Result},
    explain::ExplainFormat,
    http::{
        AppState, HttpResult, SHOWN_BYTES, example, frames,
        request::{Query, missing, wrong},
        residence,
    },
    run::RequestContext,
    servable::Servable,
    sessions::{FollowTarget, Frame, TappedPacket, Taps},
};

/// Maximum number of streams in a tap, enough for a large graph.
const MAX_STREAMS: usize = 64;

/// Maximum length in bytes of a payload's JSON: more than a person reads, and small enough for a
/// page that shows many.
const MAX_PAYLOAD_BYTES: usize = 32 << 10;

/// Maximum number of packets in one write.
const MAX_PACKETS: usize = 32;

pub(super) async fn list(State(app): AppState) -> Json<Value> {
    let servables = app.servables();
    let graphs = servables.iter().map(|servable| {
        json!({
            "name": servable.name(),
            "graph": servable.graph(),
            "version": servable.version(),
            "state": servable.state_name().as_str(),
            "status": residence::status(servable),
            "required": !servable.is_optional(),
            "sessions": servable.open_sessions(),
            "reason": servable.failure(),
        })
    });
    Json(json!({ "graphs": graphs.collect::<Vec<_>>() }))
}

pub(super) async fn one(
    State(app): AppState,
    who: RequestContext,
    Path(name): Path<String>,
    query: Query,
) -> HttpResult {
    query.check(&["format"])?;
    let format = match query.one("format")? {
        None => ExplainFormat::Json,
        Some(format) => ExplainFormat::from_str(format, false)
            .map_err(|_| wrong("format", "must be `json`, `dot`, `mermaid` or `text`"))?,
    };
    let servable = app.servables().graph(&name)?;
    let plan = described_plan(&app, &servable).await?;
    if format == ExplainFormat::Json {
        let mut graph = json!({
            "name": servable.name(),
            "version": servable.version(),
            "status": residence::status(&servable),
            "file": servable.file().display().to_string(),
            "plan": plan.explain(),
            "example": example::trial(&servable, &plan),
        });
        // Options may contain paths and prompts, like the text of the graph.
        if who.caller.as_ref().is_some_and(|it| !it.administers()) {
            let nodes = graph["plan"]["nodes"].as_array_mut();
            let nodes = nodes.into_iter().flatten();
            nodes.filter_map(Value::as_object_mut).for_each(|node| {
                node.remove("options");
            });
        }
        return Ok(Json(graph).into_response());
    }
    let headers = [(header::CONTENT_TYPE, format.media_type())];
    Ok((headers, format.write(plan.explain())).into_response())
}

/// Returns the plan of a graph. A graph that a request would load is compiled without its models,
/// so that looking at it takes no memory from others.
async fn described_plan(app: &App, servable: &Arc<Servable>) -> Result<Arc<Plan>> {
    let failure = match servable.plan() {
        Ok(plan) => return Ok(plan),
        Err(failure) => failure,
    };
    if !servable.answers() {
        return Err(failure);
    }
    let (servables, servable) = (app.servables(), Arc::clone(servable));
    let compiled = spawn_blocking(move || servables.compile_unloaded(&servable)).await;
    compiled.ok().flatten().ok_or(failure)
}

/// Answers `GET /v3/graphs/{name}/events`: the changing figures of a graph or of one of its
/// sessions.
pub(super) async fn events(
    State(app): AppState,
    Path(name): Path<String>,
    query: Query,
) -> HttpResult {
    query.check(&["session"])?;
    let followed = if let Some(id) = query.one("session")? {
        FollowTarget::Session(Arc::clone(&sessions::find_in(&app, &name, id)?.id))
    } else {
        // Fails with the reason why there is nothing to show.
        app.servables().graph(&name)?.plan()?;
        FollowTarget::Graph(name)
    };
    let events = GraphEvents {
        frames: app.runner.sessions.follow(&followed, &app.runner.served),
        shown: None,
        seq: 0,
    };
    frames::view(&app, stream::unfold(events, GraphEvents::next))
}

struct GraphEvents {
    frames: watch::Receiver<Option<Arc<Frame>>>,
    /// Frame that the client has.
    shown: Option<Arc<Frame>>,
    seq: u64,
}

impl GraphEvents {
    /// Returns the event that leads from the client's frame to this one.
    fn event(&mut self, frame: &Arc<Frame>) -> (&'static str, Value) {
        // The first frame, and the first one after the graph was loaded again, is a snapshot.
        let before = self.shown.as_deref().filter(|shown| shown.is_alike(frame));
        self.seq = before.map_or(0, |_| self.seq + 1);
        let name = before.map_or("snapshot", |_| "delta");
        (name, frame.json(self.seq, before))
    }

    /// Waits for a new frame, and writes its event.
    async fn next(mut self) -> Option<(Bytes, Self)> {
        loop {
            let frame = self.frames.borrow_and_update().clone();
            let is_shown = |frame: &Arc<Frame>| {
                let shown = self.shown.as_ref();
                shown.is_some_and(|shown| Arc::ptr_eq(shown, frame))
            };
            if let Some(frame) = frame.filter(|frame| !is_shown(frame)) {
                let (name, event) = self.event(&frame);
                self.shown = Some(frame);
                let mut out = BytesMut::new();
                frames::write_event(&mut out, Some(name), &event.to_string());
                return Some((out.freeze(), self));
            }
            self.frames.changed().await.ok()?;
        }
    }
}

/// Answers `GET /v3/graphs/{name}/tap`: the packets of some streams as they pass.
pub(super) async fn tap(
    State(app): AppState,
    who: RequestContext,
    Path(name): Path<String>,
    query: Query,
) -> HttpResult {
    query.check(&["stream", "session", "rate", "payloads"])?;
    let plan = app.servables().graph(&name)?.plan()?;
    let streams = query.all("stream");
    check_streams(&plan, &streams)?;
    let session = match query.one("session")? {
        Some(id) => Some(sessions::find_in(&app, &name, id)?.id.to_string()),
        None => None,
    };
    let share = query.one("rate")?.unwrap_or("1");
    let share = rate(share.parse().unwrap_or(f64::NAN))?;
    let observation = app.servables().observation().clone();
    let payloads = query.boolean("payloads")?.unwrap_or(true) && observation.payloads;
    who.audit("tap", &name, "done", None);
    let taps = app.runner.sessions.tap(&name, session, streams, share);
    let shows = Arc::new(Observation {
        payloads,
        ..observation
    });
    frames::view(&app, stream::unfold((taps, shows), packets))
}

/// Refuses streams that the graph does not have.
fn check_streams(plan: &Plan, streams: &[String]) -> Result<()> {
    if streams.is_empty() {
        return Err(missing("stream", "it names the streams to tap"));
    }
    let count = streams.len();
    if count > MAX_STREAMS {
        let why = format!("is given {count} times: at most {MAX_STREAMS} are allowed");
        return Err(wrong("stream", &why));
    }
    let has = |stream: &str| plan.streams().any(|other| other == stream);
    let Some(unknown) = streams.iter().find(|stream| !has(stream)) else {
        return Ok(());
    };
    let names: Vec<&str> = plan.streams().take(MAX_STREAMS).collect();
    let unknown = shortened(unknown, SHOWN_BYTES);
    let names = names.join("`, `");
    let message = format!("the graph has no stream `{unknown}`; there are `{names}`");
    Err(Failure::new(Cause::NotFound, message).with_field("stream"))
}

/// Waits for packets, and writes the available ones.
async fn packets(
    (mut taps, shows): (Taps, Arc<Observation>),
) -> Option<(Bytes, (Taps, Arc<Observation>))> {
    let packets = taps.next(MAX_PACKETS).await;
    let (dropped, observation) = (taps.dropped(), Arc::clone(&shows));
    // Payloads may be large, and this thread serves requests.
    let written = spawn_blocking(move || write_packets(&packets, dropped, &observation));
    Some((written.await.ok()?, (taps, shows)))
}

/// Writes the events of packets, and the number of dropped ones.
fn write_packets(packets: &[TappedPacket], dropped: u64, shows: &Observation) -> Bytes {
    let mut out = BytesMut::new();
    for tapped in packets {
        let mut event = described(&tapped.stream, &tapped.packet, shows);
        event["session"] = json!(tapped.session);
        frames::write_event(&mut out, Some("packet"), &event.to_string());
    }
    if dropped > 0 {
        let event = json!({ "count": dropped });
        frames::write_event(&mut out, Some("dropped"), &event.to_string());
    }
    out.freeze()
}

/// Writes a packet of a stream as JSON, with its payload.
pub(super) fn described(stream: &str, packet: &Packet, shows: &Observation) -> Value {
    let (payload, truncated) = shown(packet, shows);
    json!({
        "stream": stream,
        "timestamp": codec::timestamp_to_json(packet.time),
        "type": packet.type_info().name(),
        "payload": payload,
        "truncated": truncated,
    })
}

/// Returns the payload of a packet, as far as it is shown, and true if it was truncated.
fn shown(packet: &Packet, shows: &Observation) -> (Value, bool) {
    let encoded = shows.payloads.then(|| codec::encode(packet)).flatten();
    let Some(mut payload) = encoded else {
        return (Value::Null, false);
    };
    shows.redact.value(&mut payload);
    let text = payload.to_string();
    if text.len() <= MAX_PAYLOAD_BYTES {
        return (payload, false);
    }
    let end = text.floor_char_boundary(MAX_PAYLOAD_BYTES);
    (text[..end].into(), true)
}
