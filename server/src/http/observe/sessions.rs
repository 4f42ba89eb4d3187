//! Open sessions, and recordings of sessions.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Json,
    extract::{Path, State},
    http::{StatusCode, header},
    response::IntoResponse as _,
};
use futures_util::future::join_all;
use graphmill_engine::{Timeline, Why, shortened};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Number, Value, json};
use tokio::time::timeout;

use super::rate;
use crate::{
    app::state::App,
    errors::{Cause, Failure, Result},
    http::{
        AppState, HttpResult, JsonResult, SHOWN_BYTES,
        request::{Query, RequestBody, wrong},
    },
    run::{RECORD, RequestContext},
    sessions::{OpenSession, Recording, RecordingRule, run_on_thread},
};

/// Maximum number of sessions in the list. The oldest are listed, as stuck ones are among them.
const MAX_LISTED: usize = 256;

/// Time for a session to answer a question about it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Maximum number of sessions that a rule records: as many as a person looks at, and more than are
/// kept.
pub(super) const MAX_SESSIONS: usize = 100;

/// Maximum number of seconds that a rule is active, so that a forgotten one ends.
pub(super) const MAX_SECONDS: u64 = 3_600;

pub(super) async fn list_open(State(app): AppState, query: Query) -> JsonResult {
    query.check(&["graph"])?;
    let mut all = app.runner.sessions.all();
    if let Some(graph) = query.one("graph")? {
        let name = app.servables().graph(graph)?.name().to_owned();
        all.retain(|session| session.is_of(graph) || session.name == name);
    }
    let more = all.len().saturating_sub(MAX_LISTED);
    all.truncate(MAX_LISTED);
    let described = all.into_iter().map(|session| async move {
        let (seen, why) = tokio::join!(session.see(), session.why_now());
        Some(session.json(&seen?, why.as_ref()))
    });
    let described = run_on_thread(join_all(described)).await;
    let described: Vec<Value> = described.into_iter().flatten().collect();
    let total = described.len() + more;
    Ok(Json(json!({ "sessions": described, "total": total })))
}

pub(super) async fn why(State(app): AppState, Path(id): Path<String>) -> JsonResult {
    let session = find(&app, &id)?;
    let asked = Arc::clone(&session);
    let Some(why) = run_on_thread(async move { asked.why(PATIENCE).await }).await else {
        let computes = session.observer.inside().map(|node| {
            let reason = "is in a call in the session's own task";
            json!({ "node": session.node(node), "reason": reason, "root": true })
        });
        let waits: Vec<Value> = computes.into_iter().collect();
        let told = json!({ "id": session.id, "text": session.silence(), "waits": waits });
        return Ok(Json(told));
    };
    let text = why.to_string();
    let told = json!({ "id": session.id, "text": text.trim_end(), "waits": waits(&why) });
    Ok(Json(told))
}

/// Describes what each open node waits for. Nodes that hold up others come first, with their own
/// reason.
fn waits(why: &Why) -> Vec<Value> {
    let is_root = |node: &str| why.roots().any(|root| root.node == node);
    let others = why.chains.iter().flatten().chain(&why.nodes);
    let mut told = HashSet::new();
    let first = why.roots().chain(others);
    let first = first.filter(|wait| told.insert(wait.node.as_str()));
    let waits = first.map(|wait| {
        json!({ "node": wait.node, "reason": wait.reason.to_string(), "root": is_root(&wait.node) })
    });
    waits.collect()
}

/// Returns the open session of an id.
fn find(app: &App, id: &str) -> Result<Arc<OpenSession>> {
    app.runner.sessions.get(id).ok_or_else(|| {
        let id = shortened(id, SHOWN_BYTES);
        Failure::new(Cause::NotFound, format!("no session `{id}` is open"))
    })
}

/// Returns the open session of an id and a graph.
pub(super) fn find_in(app: &App, graph: &str, id: &str) -> Result<Arc<OpenSession>> {
    let session = find(app, id)?;
    if session.is_of(graph) || session.name == app.servables().graph(graph)?.name() {
        return Ok(session);
    }
    let (id, name) = (&session.id, &session.name);
    let message = format!("the session `{id}` belongs to the graph `{name}`");
    Err(Failure::new(Cause::NotFound, message))
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object")]
struct RecordingRequest {
    #[serde(deserialize_with = "text")]
    key: Option<String>,
    rate: f64,
    #[serde(deserialize_with = "whole")]
    sessions: usize,
    payloads: bool,
    #[serde(deserialize_with = "whole")]
    seconds: u64,
}

/// Reads a string. A field that is null is an error.
fn text<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Option<String>, D::Error> {
    String::deserialize(deserializer).map(Some)
}

/// Reads a whole number, which JSON may write as `7.0`.
fn whole<'d, D: Deserializer<'d>, T: TryFrom<u64>>(deserializer: D) -> Result<T, D::Error> {
    let number = Number::deserialize(deserializer)?;
    let written = || number.as_f64().filter(|it| it.fract() == 0.0 && *it >= 0.0);
    let whole = number.as_u64().or_else(|| written().map(|it| it as u64));
    let whole = whole.and_then(|whole| T::try_from(whole).ok());
    whole.ok_or_else(|| D::Error::custom(format!("`{number}` is not a whole number of 0 or more")))
}

impl Default for RecordingRequest {
    fn default() -> Self {
        Self {
            key: None,
            rate: 1.0,
            sessions: 10,
            payloads: false,
            seconds: 60,
        }
    }
}

fn listed(app: &App, name: &str) -> Value {
    let (rule, recordings) = app.runner.sessions.recordings(name);
    let recordings = recordings.iter().map(|recording| recording.json());
    json!({
        "active": rule.map(|rule| rule.json()),
        "recordings": recordings.collect::<Vec<_>>(),
    })
}

pub(super) async fn list_recordings(State(app): AppState, Path(name): Path<String>) -> JsonResult {
    app.servables().graph(&name)?;
    Ok(Json(listed(&app, &name)))
}

pub(super) async fn record(
    State(app): AppState,
    who: RequestContext,
    Path(name): Path<String>,
    body: RequestBody,
) -> JsonResult {
    app.servables().graph(&name)?;
    let request: RecordingRequest = body.fields()?;
    let share = rate(request.rate)?;
    let sessions = request.sessions as u64;
    for (name, count, most) in [
        ("sessions", sessions, MAX_SESSIONS as u64),
        ("seconds", request.seconds, MAX_SECONDS),
    ] {
        if !(1..=most).contains(&count) {
            return Err(wrong(name, &format!("is {count}: expected 1 to {most}")));
        }
    }
    let rule = RecordingRule {
        wanted: who.recording(request.payloads)?,
        key: request.key,
        rate: share,
        sessions: request.sessions,
        until: Instant::now() + Duration::from_secs(request.seconds),
        passed: 0,
    };
    let reason = request.payloads.then_some("with payloads");
    who.audit("record", &name, "done", reason);
    app.runner.sessions.record(&name, rule);
    Ok(Json(listed(&app, &name)))
}

pub(super) async fn record_no_more(
    State(app): AppState,
    Path(name): Path<String>,
) -> Result<StatusCode> {
    // The operator may not know that the recording has ended by itself.
    app.servables().graph(&name)?;
    app.runner.sessions.record_no_more(&name);
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn trace(
    State(app): AppState,
    Path(id): Path<String>,
    query: Query,
) -> JsonResult {
    query.check(&["format"])?;
    let write = match query.one("format")? {
        None | Some("json") => Recording::trace,
        Some("chrome") => Recording::chrome,
        Some(_) => return Err(wrong("format", "must be `json` or `chrome`")),
    };
    let recording = recorded(&app, &id)?;
    if recording.ended().is_none()
        && let Some(timeline) = open_timeline(&app, &recording).await
    {
        return Ok(Json(write(&recording, &timeline)));
    }
    // An open session may have ended meanwhile.
    let ended = recording.ended().ok_or_else(|| {
        let session = app.runner.sessions.get(&recording.id);
        let why = session.map_or("the session is about to end".to_owned(), |it| it.silence());
        Failure::new(Cause::Unavailable, why).with_code("session_busy")
    })?;
    Ok(Json(write(&recording, &ended.timeline)))
}

/// Asks an open session for its timeline so far.
async fn open_timeline(app: &App, recording: &Recording) -> Option<Timeline> {
    let session = app.runner.sessions.get(&recording.id)?;
    let asked = async move { timeout(PATIENCE, session.observer.timeline()).await };
    run_on_thread(asked).await.ok().flatten()
}

pub(super) async fn packets(State(app): AppState, Path(id): Path<String>) -> HttpResult {
    let recording = recorded(&app, &id)?;
    let lines = recording.lines().ok_or_else(|| {
        let message = format!(
            "the session `{}` was recorded without payloads: record with POST /v3/graphs/{}/recording {{\"payloads\": true}}",
            recording.id, recording.name
        );
        Failure::new(Cause::NotFound, message)
    })?;
    let content_type = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((content_type, lines).into_response())
}

/// Finds the recording of a session by its id.
fn recorded(app: &App, id: &str) -> Result<Arc<Recording>> {
    app.runner.sessions.recording(id).ok_or_else(|| {
        let id = shortened(id, SHOWN_BYTES);
        let message = format!(
            "no session `{id}` was recorded: POST /v3/graphs/<name>/recording records coming sessions, the header `{RECORD}: 1` its request"
        );
        Failure::new(Cause::NotFound, message)
    })
}
