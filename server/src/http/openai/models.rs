//! `GET /models`: the graphs that answer now and the adapters of their models, as OpenAI's model
//! objects, or as Anthropic's for its clients.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::HeaderMap,
};
use chrono::{DateTime, SecondsFormat};
use serde_json::{Value, json};

use crate::{
    http::{dialects::is_anthropic, state::App},
    keys::Caller,
    rescue::Failure,
    servable::{Named, Servable},
};

pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Option<Extension<Arc<Caller>>>,
    headers: HeaderMap,
) -> Json<Value> {
    let sees = |graph: &str, adapter: Option<&str>| {
        caller
            .as_ref()
            .is_none_or(|caller| caller.sees(graph, adapter))
    };
    let mut models = Vec::new();
    let servables = app.servables();
    for servable in servables.iter() {
        let Some(since) = servable.available_since() else {
            continue;
        };
        let adapters = servable.adapters().into_iter();
        let adapters = adapters.map(|adapter| Some(adapter.into()));
        let all = [None].into_iter().chain(adapters);
        let visible =
            all.filter(|adapter: &Option<Arc<str>>| sees(servable.name(), adapter.as_deref()));
        models.extend(visible.map(|adapter| Model {
            servable,
            adapter,
            since,
        }));
    }
    if is_anthropic(&headers) {
        return Json(anthropic_list(&models));
    }
    let data: Vec<Value> = models.iter().map(object).collect();
    Json(json!({ "object": "list", "data": data }))
}

pub(super) async fn one(
    State(app): State<Arc<App>>,
    caller: Option<Extension<Arc<Caller>>>,
    headers: HeaderMap,
    Path(name): Path<String>,
) -> Result<Json<Value>, Failure> {
    let caller = caller.as_ref().map(|caller| &*caller.0);
    let Named { servable, adapter } = app.find(&name, caller)?;
    let model = Model {
        servable: &servable,
        adapter,
        since: servable.require_available()?,
    };
    Ok(Json(if is_anthropic(&headers) {
        anthropic_object(&model)
    } else {
        object(&model)
    }))
}

/// A graph, or an adapter of its model.
struct Model<'a> {
    servable: &'a Servable,
    adapter: Option<Arc<str>>,
    /// When the graph became available, in seconds since 1970.
    since: u64,
}

impl Model<'_> {
    /// What the `model` of a request says.
    fn id(&self) -> String {
        let graph = self.servable.name();
        match &self.adapter {
            None => graph.to_owned(),
            Some(adapter) => format!("{graph}:{adapter}"),
        }
    }
}

fn object(model: &Model<'_>) -> Value {
    let mut object = json!({
        "id": model.id(), "object": "model", "created": model.since, "owned_by": "graphmill",
    });
    // vLLM's name for it, which clients read to know how much they can send.
    if let Some(tokens) = model.servable.context_length() {
        object["max_model_len"] = tokens.into();
    }
    if model.adapter.is_some() {
        object["parent"] = model.servable.name().into();
    }
    object
}

/// All models in Anthropic's form, which are one page.
fn anthropic_list(models: &[Model<'_>]) -> Value {
    json!({
        "data": models.iter().map(anthropic_object).collect::<Vec<_>>(),
        "has_more": false,
        "first_id": models.first().map(Model::id),
        "last_id": models.last().map(Model::id),
    })
}

fn anthropic_object(model: &Model<'_>) -> Value {
    let since = DateTime::from_timestamp(model.since.cast_signed(), 0).unwrap_or_default();
    json!({
        "type": "model",
        "id": model.id(),
        "display_name": model.id(),
        "created_at": since.to_rfc3339_opts(SecondsFormat::Secs, true),
    })
}
