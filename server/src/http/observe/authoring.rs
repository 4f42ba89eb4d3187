//! Help for authors of graphs: diagnostics of a text, the available nodes, and reading and
//! replacing the file of a graph.

use axum::{
    Json,
    extract::{FromRequest as _, Path, Request, State},
    http::header,
    response::{IntoResponse as _, Response},
};
use graphmill_calculators::http::dialect;
use graphmill_engine::shortened;
use graphmill_grammar::{Diagnostic, SourceMap, render, suggest};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    catalog,
    errors::{Cause, Failure, Result},
    http::{AppState, HttpResult, JsonResult, SHOWN_BYTES, meant, request::RequestBody},
    replace::replace,
    run::RequestContext,
    servable::{CompileResult, Servable, Servables, answers},
};

/// Maximum length of a graph's text in bytes, enough for some thousand nodes.
const MAX_GRAPH_BYTES: usize = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct GraphText {
    graph: String,
}

/// Refuses a text of a graph that is too long.
pub(super) fn check_length(what: &str, text: &[u8]) -> Result<()> {
    let bytes = text.len();
    if bytes <= MAX_GRAPH_BYTES {
        return Ok(());
    }
    let message = format!("{what} has {bytes} bytes: at most {MAX_GRAPH_BYTES} are allowed");
    Err(Failure::new(Cause::BadRequest, message))
}

/// Compiles a text without loading models.
pub(super) async fn check(State(app): AppState, body: RequestBody) -> JsonResult {
    let GraphText { graph } = body.fields()?;
    check_length("`graph`", graph.as_bytes()).map_err(|failure| failure.with_field("graph"))?;
    let servables = app.servables();
    // It may take long, and this thread serves requests.
    let check = move || {
        let compiled = servables.check_text(graph);
        json!({
            "diagnostics": diagnostics(&compiled),
            "plan": compiled.plan.as_ref().map(|plan| json!(plan.explain())),
            "note": compiled.plan.as_ref().and_then(|plan| answers(plan).err()),
        })
    };
    body.share.beside(check, "the check failed").await.map(Json)
}

/// Returns the diagnostics of a text as JSON.
pub(super) fn diagnostics(compiled: &CompileResult) -> Vec<Value> {
    let diagnostics = compiled.diagnostics.iter();
    let diagnostics = diagnostics.map(|it| diagnostic(&compiled.sources, it));
    diagnostics.collect()
}

/// Returns the error for a text that does not compile, with its diagnostics.
pub(super) fn refused(compiled: &CompileResult) -> Response {
    let mut errors = compiled.diagnostics.iter().filter(|it| it.is_error());
    let first = errors.next().map_or("", |error| &error.message);
    let message = format!("the graph does not compile: {first}");
    let failure = Failure::new(Cause::BadRequest, message).with_code("graph_refused");
    let mut body = dialect::error(&failure.view(None));
    body["diagnostics"] = diagnostics(compiled).into();
    (failure.row().status, Json(body)).into_response()
}

/// Writes a diagnostic as JSON, with its position.
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

/// Lists all calculators and subgraphs.
pub(super) async fn calculators(State(app): AppState) -> Json<Value> {
    let all = catalog::list(app.servables().registry()).into_iter();
    let all = all.map(|(name, summary)| json!({ "name": name, "summary": summary }));
    Json(json!({ "calculators": all.collect::<Vec<_>>() }))
}

/// Describes a calculator or subgraph.
pub(super) async fn calculator(State(app): AppState, Path(name): Path<String>) -> JsonResult {
    let servables = app.servables();
    let registry = servables.registry();
    if let Some(found) = catalog::describe(registry, &name) {
        return Ok(Json(found));
    }
    let name = &*shortened(&name, SHOWN_BYTES);
    let names = catalog::list(registry);
    let near = suggest::nearest(name, names.iter().map(|(name, _)| name.as_str()));
    let message = format!("no calculator is called `{name}`{}", meant(near));
    Err(Failure::new(Cause::NotFound, message))
}

/// Answers `GET /v3/graphs/{name}/file`.
pub(super) async fn text(State(app): AppState, Path(name): Path<String>) -> HttpResult {
    let servable = app.servables().graph(&name)?;
    let text = servable.text().ok_or_else(|| {
        let message =
            format!("the text of the graph `{name}` is not known: it has not been loaded");
        Failure::new(Cause::NotFound, message)
    })?;
    let content_type = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    Ok((content_type, text.to_string()).into_response())
}

/// Replaces the file of a graph. The file watch, or a reload, then serves it.
pub(super) async fn save(
    State(app): AppState,
    who: RequestContext,
    Path(name): Path<String>,
    request: Request,
) -> HttpResult {
    let audit = |outcome, reason| who.audit("edit", &name, outcome, reason);
    if !app.options.graph_edits {
        let message = "editing graphs is off: the server runs without `--allow_graph_edits`";
        audit("refused", Some(message));
        return Err(Failure::new(Cause::Forbidden, message));
    }
    let servables = app.servables();
    let servable = servables.graph(&name)?;
    let RequestBody { bytes, share } = RequestBody::from_request(request, &app).await?;
    check_length("the text", &bytes)?;
    if bytes.trim_ascii().is_empty() {
        let message = "the body is empty: send the text of the graph";
        let failure = Failure::new(Cause::BadRequest, message);
        return Err(failure.with_code("missing_required_parameter"));
    }
    let text = String::from_utf8(bytes.into())
        .map_err(|_| Failure::new(Cause::BadRequest, "the text is not UTF-8"))?;
    // Compiling may take long, and this thread serves requests.
    let save = move || check_and_write(&servables, &servable, &text);
    let saved = share.beside(save, "the check failed").await;
    let saved = saved.unwrap_or_else(Err);
    match &saved {
        Ok(response) if response.status().is_success() => audit("done", None),
        Ok(_) => audit("failed", Some("the text does not compile")),
        Err(failure) => audit("failed", Some(&failure.message)),
    }
    saved
}

/// Writes a text if it compiles. Otherwise returns the answer with its errors.
fn check_and_write(servables: &Servables, servable: &Servable, text: &str) -> HttpResult {
    let name = servable.name();
    let gone = || {
        let message = format!("the graph `{name}` has no file");
        Failure::new(Cause::NotFound, message)
    };
    // The target of a symbolic link is written, not the link.
    let file = &servable.file().canonicalize().map_err(|_| gone())?;
    let compiled = servables.check_edit(servable, text);
    let Some(plan) = &compiled.plan else {
        return Ok(refused(&compiled));
    };
    answers(plan).map_err(|why| Failure::new(Cause::BadRequest, why))?;
    replace(file, text.as_bytes(), 0o600).map_err(|error| {
        let message = format!("cannot write `{}`: {error}", file.display());
        Failure::new(Cause::Unavailable, message).with_code("not_written")
    })?;
    let saved = json!({
        "name": name,
        "file": file.display().to_string(),
        "diagnostics": diagnostics(&compiled),
    });
    Ok(Json(saved).into_response())
}
