//! `GET /models`: the graphs that answer now, as OpenAI's model objects.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
};
use serde_json::{Value, json};

use crate::{app::App, rescue::Failure};

pub(super) async fn list(State(app): State<Arc<App>>) -> Json<Value> {
    let data: Vec<Value> = app
        .servables
        .iter()
        .filter_map(|servable| Some(object(servable.name(), servable.available_since()?)))
        .collect();
    Json(json!({ "object": "list", "data": data }))
}

pub(super) async fn one(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Failure> {
    let servable = app.servables.find(&name)?;
    Ok(Json(object(servable.name(), servable.require_available()?)))
}

/// `since` is when the graph became available, in seconds since 1970.
fn object(name: &str, since: u64) -> Value {
    json!({ "id": name, "object": "model", "created": since, "owned_by": "graphmill" })
}
