//! `GET /models`: the graphs that answer now and the adapters of their models, as OpenAI's model objects.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
};
use serde_json::{Value, json};

use crate::{app::App, rescue::Failure, servable::Named};

pub(super) async fn list(State(app): State<Arc<App>>) -> Json<Value> {
    let mut data = Vec::new();
    for servable in app.servables.iter() {
        let Some(since) = servable.available_since() else {
            continue;
        };
        data.push(object(servable.name(), since));
        let adapters = servable.adapters().into_iter();
        data.extend(adapters.map(|adapter| of_adapter(servable.name(), &adapter, since)));
    }
    Json(json!({ "object": "list", "data": data }))
}

pub(super) async fn one(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Failure> {
    let Named { servable, adapter } = app.servables.find(&name)?;
    let since = servable.require_available()?;
    Ok(Json(match adapter {
        Some(adapter) => of_adapter(servable.name(), &adapter, since),
        None => object(servable.name(), since),
    }))
}

/// `since` is when the graph became available, in seconds since 1970.
fn object(name: &str, since: u64) -> Value {
    json!({ "id": name, "object": "model", "created": since, "owned_by": "graphmill" })
}

fn of_adapter(graph: &str, adapter: &str, since: u64) -> Value {
    let mut model = object(&format!("{graph}:{adapter}"), since);
    model["parent"] = graph.into();
    model
}
