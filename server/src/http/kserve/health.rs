//! Health for probes. Live: the process answers, and nothing in it has failed for good. Ready:
//! requests would be served, by one graph at least; or by the graph that is asked for, which means
//! that it is available and its engines step.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::{app::state::App, servable::Servable};

pub(super) async fn live(State(app): State<Arc<App>>) -> Response {
    match app.servables().beyond_help() {
        None => Json(json!({ "live": true })).into_response(),
        Some(reason) => refused(json!({ "live": false, "reason": reason })),
    }
}

pub(in crate::http) async fn ready(State(app): State<Arc<App>>) -> Response {
    match app.unready() {
        None => Json(json!({ "ready": true })).into_response(),
        Some(reason) => refused(json!({ "ready": false, "reason": reason })),
    }
}

/// As [`ready`], for one graph.
pub(super) fn of_model(app: &App, servable: &Servable) -> Response {
    let reason = app.stopping().or_else(|| servable.unready());
    let name = servable.name();
    match reason {
        None => Json(json!({ "name": name, "ready": true })).into_response(),
        Some(reason) => refused(json!({ "name": name, "ready": false, "reason": reason })),
    }
}

fn refused(body: Value) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
}
