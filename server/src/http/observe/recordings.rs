//! Recordings of sessions: which are made, and what they have.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Path, RawQuery, Request, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use graphmill_engine::{Timeline, shortened};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Number, Value, json};
use tokio::time::timeout;

use super::{
    SHOWN_BYTES, authoring,
    query::{Query, rate, wrong},
};
use crate::{
    app::state::App,
    errors::{Cause, Failure},
    http::asker::Asker,
    run::RECORD,
    sessions::{Recording, RecordingRule, run_on_thread},
};

/// The most sessions that one rule records: as many as a person looks at, and more than are kept.
pub(super) const MAX_SESSIONS: usize = 100;

/// How long a rule counts at most, so that one that was forgotten ends.
pub(super) const MAX_SECONDS: u64 = 3_600;

/// How long an open session may take to tell what it did.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
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

/// A text where there is the field: null is none.
fn text<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Option<String>, D::Error> {
    String::deserialize(deserializer).map(Some)
}

/// A whole number, which JSON may write as `7.0`.
fn whole<'d, D: Deserializer<'d>, T: TryFrom<u64>>(deserializer: D) -> Result<T, D::Error> {
    let number = Number::deserialize(deserializer)?;
    let written = || number.as_f64().filter(|it| it.fract() == 0.0 && *it >= 0.0);
    let whole = number.as_u64().or_else(|| written().map(|it| it as u64));
    let whole = whole.and_then(|whole| T::try_from(whole).ok());
    whole.ok_or_else(|| D::Error::custom(format!("`{number}` is no whole number from 0 on")))
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

/// The name under which recordings of a graph are asked for, if there is such a graph.
fn known(app: &App, name: String) -> Result<String, Failure> {
    super::graph(app, &name)?;
    Ok(name)
}

fn listed(app: &App, name: &str) -> Value {
    let (rule, recordings) = app.sessions.recordings(name);
    let recordings = recordings.iter().map(|recording| recording.json());
    json!({
        "active": rule.map(|rule| rule.json()),
        "recordings": recordings.collect::<Vec<_>>(),
    })
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Failure> {
    let name = known(&app, name)?;
    Ok(Json(listed(&app, &name)))
}

pub(super) async fn begin(
    State(app): State<Arc<App>>,
    asker: Asker,
    Path(name): Path<String>,
    request: Request,
) -> Result<Json<Value>, Failure> {
    let name = known(&app, name)?;
    let (parts, body) = request.into_parts();
    let body = app.read_body(&parts, body).await?;
    let request: RecordingRequest = authoring::read_optional(&body)?;
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
    let wanted = app.runner.recording(request.payloads)?;
    let time = Duration::from_secs(request.seconds);
    let reason = request.payloads.then_some("with payloads");
    asker.audit("record", &name, "done", reason);
    let rule = RecordingRule::new(wanted, request.key, share, request.sessions, time);
    app.sessions.record(&name, rule);
    Ok(Json(listed(&app, &name)))
}

pub(super) async fn end(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<StatusCode, Failure> {
    // Whoever began it does not know whether it has ended by itself.
    app.sessions.record_no_more(&known(&app, name)?);
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn trace(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    query: RawQuery,
) -> Result<Json<Value>, Failure> {
    let query = Query::read(query, &["format"])?;
    let write = match query.one("format")? {
        None | Some("json") => Recording::trace,
        Some("chrome") => Recording::chrome,
        Some(_) => return Err(wrong("format", "must be `json` or `chrome`")),
    };
    let recording = recorded(&app, &id)?;
    if let Some(ended) = recording.ended() {
        return Ok(Json(write(&recording, &ended.timeline)));
    }
    if let Some(timeline) = open_timeline(&app, &recording).await {
        return Ok(Json(write(&recording, &timeline)));
    }
    // It may have ended meanwhile.
    let ended = recording.ended().ok_or_else(|| {
        let session = app.sessions.get(&recording.id);
        let why = session.map_or("the session is about to end".to_owned(), |it| it.silence());
        Failure::new(Cause::Unavailable, why).with_code("session_busy")
    })?;
    Ok(Json(write(&recording, &ended.timeline)))
}

/// What an open session did so far, if it tells.
async fn open_timeline(app: &App, recording: &Recording) -> Option<Timeline> {
    let session = app.sessions.get(&recording.id)?;
    let asked = async move { timeout(PATIENCE, session.viewer.timeline()).await };
    run_on_thread(asked).await.ok().flatten()
}

pub(super) async fn packets(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Response, Failure> {
    let recording = recorded(&app, &id)?;
    let lines = recording.lines().ok_or_else(|| {
        let message = format!(
            "the session `{}` was recorded without payloads: POST /v3/graphs/{}/recording {{\"payloads\": true}} records them",
            recording.id, recording.name
        );
        Failure::new(Cause::NotFound, message)
    })?;
    let content_type = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((content_type, lines).into_response())
}

/// What was recorded of the session of an id.
fn recorded(app: &App, id: &str) -> Result<Arc<Recording>, Failure> {
    app.sessions.recording(id).ok_or_else(|| {
        let id = shortened(id, SHOWN_BYTES);
        let message = format!(
            "no session `{id}` was recorded: POST /v3/graphs/<name>/recording records coming sessions, the header `{RECORD}: 1` its request"
        );
        Failure::new(Cause::NotFound, message)
    })
}
