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
    told(json!({}), "live", app.servables().beyond_help())
}

pub(in crate::http) async fn ready(State(app): State<Arc<App>>) -> Response {
    told(json!({}), "ready", app.unready())
}

/// As [`ready`], for one graph.
pub(super) fn of_model(app: &App, servable: &Servable) -> Response {
    let reason = app.stopping().or_else(|| servable.unready());
    told(json!({ "name": servable.name() }), "ready", reason)
}

/// Answers a probe with one more field, which is true unless there is a reason against it.
pub(in crate::http) fn told(mut body: Value, field: &str, reason: Option<String>) -> Response {
    body[field] = reason.is_none().into();
    let Some(reason) = reason else {
        return Json(body).into_response();
    };
    body["reason"] = reason.into();
    (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
}
