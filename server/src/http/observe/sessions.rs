//! `GET /v3/sessions` and `GET /v3/sessions/{id}/why`.

use std::{collections::HashSet, sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Path, RawQuery, State},
};
use futures_util::future::join_all;
use graphmill_engine::{Why, shortened};
use serde_json::{Value, json};

use super::{SHOWN_BYTES, query::Query};
use crate::{
    app::state::App,
    errors::{Cause, Failure},
    sessions::{OpenSession, run_on_thread},
};

/// The most sessions that are listed: the oldest, among which are those that do not go on.
const MAX_LISTED: usize = 256;

/// How long one that was asked for by name may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) async fn list(
    State(app): State<Arc<App>>,
    query: RawQuery,
) -> Result<Json<Value>, Failure> {
    let query = Query::read(query, &["graph"])?;
    let mut all = app.sessions.all();
    if let Some(graph) = query.one("graph")? {
        let name = super::graph(&app, graph)?.name().to_owned();
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

pub(super) async fn why(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Failure> {
    let session = find(&app, &id)?;
    let asked = Arc::clone(&session);
    let Some(why) = run_on_thread(async move { asked.why(PATIENCE).await }).await else {
        let computes = session.viewer.inside().map(|node| {
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

/// What each open node waits for: those that hold up others first, with the reason that this has.
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

/// The open session of an id.
fn find(app: &App, id: &str) -> Result<Arc<OpenSession>, Failure> {
    app.sessions.get(id).ok_or_else(|| {
        let id = shortened(id, SHOWN_BYTES);
        Failure::new(Cause::NotFound, format!("no session `{id}` is open"))
    })
}

/// The open session of an id and a graph.
pub(super) fn of_graph(app: &App, graph: &str, id: &str) -> Result<Arc<OpenSession>, Failure> {
    let session = find(app, id)?;
    if session.is_of(graph) || session.name == super::graph(app, graph)?.name() {
        return Ok(session);
    }
    let (id, name) = (&session.id, &session.name);
    let message = format!("the session `{id}` is one of the graph `{name}`");
    Err(Failure::new(Cause::NotFound, message))
}
