//! Help for authors of graphs: diagnostics of a text, and the available nodes.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Request, State},
    response::{IntoResponse as _, Response},
};
use graphmill_calculators::http::dialect;
use graphmill_calculators::payload::without_mark;
use graphmill_engine::shortened;
use graphmill_grammar::{Diagnostic, SourceMap, render, suggest};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::SHOWN_BYTES;
use crate::{
    app::state::App,
    catalog,
    errors::{Cause, Failure},
    servable::{Compiled, answers},
};

/// The longest text of a graph, in bytes: some thousand nodes.
const MAX_GRAPH_BYTES: usize = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GraphText {
    graph: String,
}

/// Refuses a text of a graph that is too long.
pub(super) fn check_length(what: &str, text: &[u8]) -> Result<(), Failure> {
    let bytes = text.len();
    if bytes <= MAX_GRAPH_BYTES {
        return Ok(());
    }
    let message = format!("{what} has {bytes} bytes, at most {MAX_GRAPH_BYTES}");
    Err(Failure::new(Cause::BadRequest, message))
}

/// Reads a body of these fields; an empty one is `{}`.
pub(in crate::http) fn read_optional<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    let is_empty = body.trim_ascii().is_empty();
    read(if is_empty { b"{}" } else { body })
}

/// Reads a body of these fields.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    let text = without_mark(body);
    if text.trim_ascii_start().starts_with(b"[") {
        // serde accepts a list of the fields' values.
        let message = "the body cannot be read: it is an array, not an object";
        return Err(Failure::new(Cause::BadRequest, message).with_code("invalid_value"));
    }
    serde_json::from_slice(text).map_err(|error| {
        let message = format!("the body cannot be read: {error}");
        let is_json = error.is_data();
        let code = if is_json {
            "invalid_value"
        } else {
            "invalid_json"
        };
        Failure::new(Cause::BadRequest, message).with_code(code)
    })
}

/// Compiles a text, without models.
pub(super) async fn check(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Json<Value>, Failure> {
    let (parts, body) = request.into_parts();
    let share = app.bodies.share(&parts.extensions);
    let body = app.read_share(&share, &parts, body).await?;
    let GraphText { graph } = read(&body)?;
    check_length("`graph`", graph.as_bytes()).map_err(|failure| failure.of_field("graph"))?;
    let servables = app.servables();
    // It may take a while, and this thread serves requests.
    let check = move || {
        let compiled = servables.check_text(graph);
        json!({
            "diagnostics": diagnostics(&compiled),
            "plan": compiled.plan.as_ref().map(|plan| json!(plan.explain())),
            "note": compiled.plan.as_ref().and_then(|plan| answers(plan).err()),
        })
    };
    share.beside(check, "the check failed").await.map(Json)
}

/// What is said of a text.
pub(super) fn diagnostics(compiled: &Compiled) -> Vec<Value> {
    let diagnostics = compiled.diagnostics.iter();
    let diagnostics = diagnostics.map(|it| diagnostic(&compiled.sources, it));
    diagnostics.collect()
}

/// The answer to an operation on a text that does not compile: an error with its diagnostics.
pub(super) fn refused(compiled: &Compiled) -> Response {
    let mut errors = compiled.diagnostics.iter().filter(|it| it.is_error());
    let first = errors.next().map_or("", |error| &error.message);
    let message = format!("the graph does not compile: {first}");
    let failure = Failure::new(Cause::BadRequest, message).with_code("graph_refused");
    let mut body = dialect::error(&failure.view(None));
    body["diagnostics"] = diagnostics(compiled).into();
    (failure.row().status, Json(body)).into_response()
}

/// A diagnostic, with its place beside what it says.
fn diagnostic(sources: &SourceMap, diagnostic: &Diagnostic) -> Value {
    let told = json!(render::json(sources, diagnostic));
    let hints = diagnostic.hints.iter().map(|hint| hint.text.as_str());
    let help: Vec<&str> = hints.collect();
    let place = &told["place"];
    json!({
        "severity": told["severity"],
        "code": told["code"],
        "title": told["title"],
        "message": told["message"],
        "line": place["line"],
        "column": place["column"],
        "end_line": place["end_line"],
        "end_column": place["end_column"],
        "help": (!help.is_empty()).then(|| help.join("; ")),
        "hints": told["hints"],
    })
}

/// All calculators and subgraphs.
pub(super) async fn calculators(State(app): State<Arc<App>>) -> Json<Value> {
    let all = catalog::list(app.servables().registry()).into_iter();
    let all = all.map(|(name, summary)| json!({ "name": name, "summary": summary }));
    Json(json!({ "calculators": all.collect::<Vec<_>>() }))
}

/// One of them.
pub(super) async fn calculator(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Failure> {
    let servables = app.servables();
    let registry = servables.registry();
    if let Some(found) = catalog::describe(registry, &name) {
        return Ok(Json(found));
    }
    let name = &*shortened(&name, SHOWN_BYTES);
    let names = catalog::list(registry);
    let near = suggest::nearest(name, names.iter().map(|(name, _)| name.as_str()));
    let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    let message = format!("no calculator is called `{name}`{near}");
    Err(Failure::new(Cause::NotFound, message))
}
