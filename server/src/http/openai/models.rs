//! `GET /models`: the graphs that answer now and the adapters of their models, as OpenAI's model objects.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
};
use serde_json::{Value, json};

use crate::{
    app::App,
    rescue::Failure,
    servable::{Named, Servable},
};

pub(super) async fn list(State(app): State<Arc<App>>) -> Json<Value> {
    let mut data = Vec::new();
    for servable in app.servables.iter() {
        let Some(since) = servable.available_since() else {
            continue;
        };
        data.push(object(servable, None, since));
        let adapters = servable.adapters().into_iter();
        data.extend(adapters.map(|adapter| object(servable, Some(&adapter), since)));
    }
    Json(json!({ "object": "list", "data": data }))
}

pub(super) async fn one(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Failure> {
    let Named { servable, adapter } = app.servables.find(&name)?;
    let since = servable.require_available()?;
    Ok(Json(object(servable, adapter.as_deref(), since)))
}

/// A graph, or an adapter of its model. `since` is when the graph became available, in seconds since 1970.
fn object(servable: &Servable, adapter: Option<&str>, since: u64) -> Value {
    let graph = servable.name();
    let id = adapter.map_or_else(|| graph.to_owned(), |adapter| format!("{graph}:{adapter}"));
    let mut model =
        json!({ "id": id, "object": "model", "created": since, "owned_by": "graphmill" });
    // vLLM's name for it, which clients read to know how much they can send.
    if let Some(tokens) = servable.context_length() {
        model["max_model_len"] = tokens.into();
    }
    if adapter.is_some() {
        model["parent"] = graph.into();
    }
    model
}
