//! Health for probes. Live: the process answers. Ready: requests would be served, which means that graphs are available and
//! their engines step.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::app::App;

pub(super) async fn live() -> Response {
    Json(json!({ "live": true })).into_response()
}

pub(super) async fn ready(State(app): State<Arc<App>>) -> Response {
    match app.unready() {
        None => Json(json!({ "ready": true })).into_response(),
        Some(reason) => (
            StatusCode::SERVICE_UNAVAILABLE,
            Json(json!({ "ready": false, "reason": reason })),
        )
            .into_response(),
    }
}
