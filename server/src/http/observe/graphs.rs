//! `GET /v3/graphs` and `GET /v3/graphs/{name}`.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, RawQuery, State},
    http::header,
    response::{IntoResponse as _, Response},
};
use clap::ValueEnum as _;
use serde_json::{Value, json};

use super::query::{Query, wrong};
use crate::{
    app::state::App,
    errors::Failure,
    explain::Format,
    http::{asker::Asker, example},
};

pub(super) async fn list(State(app): State<Arc<App>>) -> Json<Value> {
    let servables = app.servables();
    let graphs = servables.iter().map(|servable| {
        json!({
            "name": servable.name(),
            "graph": servable.graph(),
            "version": servable.version(),
            "state": servable.state_name().as_str(),
            "required": !servable.is_optional(),
            "sessions": servable.open_sessions(),
            "reason": servable.failure(),
        })
    });
    Json(json!({ "graphs": graphs.collect::<Vec<_>>() }))
}

pub(super) async fn one(
    State(app): State<Arc<App>>,
    asker: Asker,
    Path(name): Path<String>,
    query: RawQuery,
) -> Result<Response, Failure> {
    let query = Query::read(query, &["format"])?;
    let format = match query.one("format")? {
        None => Format::Json,
        Some(format) => Format::from_str(format, false)
            .map_err(|_| wrong("format", "must be `json`, `dot`, `mermaid` or `text`"))?,
    };
    let servable = super::graph(&app, &name)?;
    let plan = servable.plan()?;
    if format == Format::Json {
        let mut graph = json!({
            "name": servable.name(),
            "version": servable.version(),
            "file": servable.file().display().to_string(),
            "plan": plan.explain(),
            "example": example::trial(&servable, &plan),
        });
        // Options have paths and prompts, as the text of the graph has.
        if asker.caller().is_some_and(|caller| !caller.administers()) {
            let nodes = graph["plan"]["nodes"].as_array_mut();
            let nodes = nodes.into_iter().flatten();
            nodes.filter_map(Value::as_object_mut).for_each(|node| {
                node.remove("options");
            });
        }
        return Ok(Json(graph).into_response());
    }
    let headers = [(header::CONTENT_TYPE, format.media_type())];
    Ok((headers, format.write(plan.explain())).into_response())
}
