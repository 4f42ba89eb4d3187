//! `GET /models`: the graphs that answer, or are loaded at their first request, and the adapters of
//! their models. The objects have OpenAI's form, or Anthropic's for its clients.

use std::{path::PathBuf, sync::Arc};

use axum::{
    Json,
    extract::{Path, State},
    http::HeaderMap,
};
use chrono::{DateTime, SecondsFormat};
use serde_json::{Value, json};

use crate::{
    app::state::App,
    http::{AppState, JsonResult, residence},
    run::RequestContext,
    servable::{LATEST, ResolvedGraph, Servable},
};

/// Header that all clients of Anthropic send.
const ANTHROPIC: &str = "anthropic-version";

pub(super) async fn list(
    State(app): AppState,
    who: RequestContext,
    headers: HeaderMap,
) -> Json<Value> {
    let models = visible(&app, &who);
    let data: Vec<Value> = models.iter().map(form(&headers)).collect();
    if !headers.contains_key(ANTHROPIC) {
        return Json(json!({ "object": "list", "data": data }));
    }
    // All models are on one page.
    let (first, last) = (models.first().map(Model::id), models.last().map(Model::id));
    Json(json!({ "data": data, "has_more": false, "first_id": first, "last_id": last }))
}

/// Returns the graphs and adapters that a request may name now, sorted by name.
pub(in crate::http) fn visible(app: &App, who: &RequestContext) -> Vec<Model> {
    let servables = app.servables();
    // A graph with versions is listed under its own name and under those of its versions.
    let newest = servables.versioned().filter_map(|graph| {
        let named = servables.named(graph, None)?;
        Some((graph.to_owned(), named.servable))
    });
    let all = servables.all();
    let all = all.map(|it| (it.name().to_owned(), Arc::clone(it)));
    let mut named: Vec<(String, Arc<Servable>)> = newest.chain(all).collect();
    named.sort_by(|one, other| one.0.cmp(&other.0));
    let mut models = Vec::new();
    let is_listed = |it: &Servable| it.answers() || it.is_independent();
    for (name, servable) in named.into_iter().filter(|(_, it)| is_listed(it)) {
        let adapters = servable.adapters().into_iter();
        let adapters = adapters.map(|adapter| Some(adapter.into()));
        let all = [None].into_iter().chain(adapters);
        let visible = all.filter(|adapter: &Option<Arc<str>>| {
            // An adapter that was loaded at run time has one name, even if its graph has several.
            let is_once = |it: &str| *name == *servable.name() || !servable.was_given(it);
            who.sees(servable.graph(), adapter.as_deref()) && adapter.as_deref().is_none_or(is_once)
        });
        models.extend(visible.map(|adapter| Model {
            name: name.clone(),
            file: file(&servable, adapter.as_deref(), who),
            servable: Arc::clone(&servable),
            adapter,
        }));
    }
    models
}

pub(super) async fn one(
    who: RequestContext,
    headers: HeaderMap,
    Path(name): Path<String>,
) -> JsonResult {
    let ResolvedGraph { servable, adapter } = who.find(&name)?;
    if !servable.answers() && !servable.is_independent() {
        servable.plan()?;
    }
    let servables = who.servables();
    let name = servables.without_alias(&name);
    let before = |tag: &str| {
        let graph = name.strip_suffix(tag)?.strip_suffix(':')?;
        Some(servables.without_alias(graph))
    };
    let graph = match &adapter {
        Some(adapter) if **adapter == *name => servable.name(),
        Some(adapter) => before(adapter).unwrap_or(name),
        None => {
            let plain = before(LATEST).unwrap_or(name);
            let is_its_own = [servable.name(), servable.graph()].contains(&plain);
            if is_its_own { plain } else { name }
        }
    };
    let model = Model {
        name: graph.to_owned(),
        file: file(&servable, adapter.as_deref(), &who),
        servable,
        adapter,
    };
    Ok(Json(form(&headers)(&model)))
}

/// Finds the file of an adapter, which operators alone may see.
fn file(graph: &Servable, adapter: Option<&str>, who: &RequestContext) -> Option<PathBuf> {
    let adapter = adapter.filter(|_| who.operates())?;
    graph.adapter_file(adapter)
}

/// Returns the form of model objects that a client expects.
fn form(headers: &HeaderMap) -> fn(&Model) -> Value {
    if headers.contains_key(ANTHROPIC) {
        anthropic_object
    } else {
        object
    }
}

/// A graph, or an adapter of its model.
pub(in crate::http) struct Model {
    /// Name of the graph, or of a version of it.
    name: String,
    pub(in crate::http) servable: Arc<Servable>,
    pub(in crate::http) adapter: Option<Arc<str>>,
    /// File of the adapter; `None` if it is not shown.
    file: Option<PathBuf>,
}

impl Model {
    /// Returns the name for the `model` of requests. An adapter that was loaded at run time has only
    /// its own name there, because clients that loaded it look for that name.
    pub(in crate::http) fn id(&self) -> String {
        let graph = &self.name;
        match &self.adapter {
            None => graph.clone(),
            Some(adapter) if self.servable.was_given(adapter) => adapter.to_string(),
            Some(adapter) => format!("{graph}:{adapter}"),
        }
    }

    /// Returns the time when the graph became available, in seconds since 1970; 0 before it is
    /// loaded.
    fn since(&self) -> u64 {
        self.servable.available_since().unwrap_or_default()
    }
}

fn object(model: &Model) -> Value {
    let mut object = json!({
        "id": model.id(), "object": "model", "created": model.since(), "owned_by": "graphmill",
        "state": model.servable.state_name().as_str(), "status": residence::status(&model.servable),
        // Clients of KServe read it at the same path.
        "ready": model.servable.unready().is_none(),
    });
    let aliases = model.servable.aliases();
    if !aliases.is_empty() && model.adapter.is_none() {
        object["aliases"] = json!(aliases);
    }
    // Name that vLLM uses for it. Clients read it to limit their prompts.
    if let Some(tokens) = model.servable.context_length() {
        object["max_model_len"] = tokens.into();
    }
    let reads = model.servable.reads();
    if !reads.is_empty() {
        object["input_modalities"] = json!([&["text"][..], &reads].concat());
    }
    let endpoints = model.servable.endpoints();
    if !endpoints.is_empty() {
        object["endpoints"] = json!(endpoints);
    }
    if let Some(why) = model.servable.chat_refused() {
        object["chat_refused"] = why.into();
    }
    if model.adapter.is_some() {
        object["parent"] = model.name.as_str().into();
    }
    if let Some(file) = &model.file {
        object["root"] = json!(file);
    }
    object
}

fn anthropic_object(model: &Model) -> Value {
    let since = DateTime::from_timestamp(model.since().cast_signed(), 0).unwrap_or_default();
    json!({
        "type": "model",
        "id": model.id(),
        "display_name": model.id(),
        "created_at": since.to_rfc3339_opts(SecondsFormat::Secs, true),
    })
}
