//! Health for probes, descriptions of graphs, and Triton's model repository.
//!
//! Live means that the process answers, and nothing in it has failed permanently. Ready means that
//! at least one graph answers requests. For a named graph, ready means that it is available and its
//! engines make progress.

use std::collections::BTreeMap;

use axum::{
    Json,
    extract::{Path, State},
    http::{Method, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::ModelQuestion;
use crate::{
    app::state::App,
    errors::Result,
    http::{AppState, HttpResult, JsonResult, request::RequestBody, unknown_route},
    kserve::{
        self, ParameterMap,
        proto::{TraceSettingResponse, repository_index_response::ModelIndex},
    },
    run::RequestContext,
};

pub(super) async fn live(State(app): AppState) -> Response {
    report(json!({}), "live", app.servables().beyond_help())
}

pub(in crate::http) async fn ready(State(app): AppState) -> Response {
    report(json!({}), "ready", app.unready())
}

/// Answers a probe. The body gets a field that is true if there is no `reason`.
pub(in crate::http) fn report(mut body: Value, field: &str, reason: Option<String>) -> Response {
    body[field] = reason.is_none().into();
    let Some(reason) = reason else {
        return Json(body).into_response();
    };
    body["reason"] = reason.into();
    (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
}

/// Answers a question about a graph. Loads the graph if the answer needs its plan.
pub(super) async fn answer(
    app: &App,
    who: &RequestContext,
    name: &str,
    version: &str,
    question: ModelQuestion,
) -> HttpResult {
    let servable = &*kserve::find(who, name, version)?;
    Ok(match question {
        ModelQuestion::Ready => {
            let reason = app.stopping().or_else(|| servable.unready());
            report(json!({ "name": servable.graph() }), "ready", reason)
        }
        ModelQuestion::Statistics => {
            Json(app.statistics.read_asked(who, name, version)?).into_response()
        }
        ModelQuestion::Tracing => trace_settings(app).into_response(),
        ModelQuestion::Config => {
            let ready = kserve::loaded(who, name, version).await?;
            Json(kserve::config(&ready)).into_response()
        }
        ModelQuestion::Metadata | ModelQuestion::Infer => {
            Json(kserve::describe(who, name, version).await?).into_response()
        }
    })
}

/// Returns the trace settings. Lists with one value are written as that value.
pub(super) fn trace_settings(app: &App) -> Json<Value> {
    write_traces(kserve::trace_settings(app.options.traces.as_ref()))
}

/// Writes a setting with a single value as that value, unless it can be a list.
fn write_traces(settings: TraceSettingResponse) -> Json<Value> {
    let settings = settings.settings.into_iter().map(|(name, setting)| {
        let value = match &setting.value[..] {
            [value] if name != "trace_level" => json!(value),
            values => json!(values),
        };
        (name, value)
    });
    Json(settings.collect::<Map<_, _>>().into())
}

/// A trace setting: a string, or several.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a text, an array of texts, or null")]
enum Setting {
    One(String),
    Several(Vec<String>),
}

/// Refuses trace settings that differ from the current ones.
pub(super) async fn set_traces(State(app): AppState, body: RequestBody) -> JsonResult {
    let given: BTreeMap<String, Option<Setting>> = body.fields()?;
    let given = given.into_iter().map(|(name, setting)| match setting {
        None => (name, Vec::new()),
        Some(Setting::One(value)) => (name, vec![value]),
        Some(Setting::Several(values)) => (name, values),
    });
    let given: BTreeMap<String, Vec<String>> = given.collect();
    let settings = kserve::check_traces(app.options.traces.as_ref(), &given)?;
    Ok(write_traces(settings))
}

/// Changes the log level. Other log settings must stay as they are.
pub(super) async fn set_log(
    who: RequestContext,
    body: RequestBody,
) -> Result<Json<impl Serialize>> {
    let given: ParameterMap = body.fields()?;
    Ok(Json(kserve::set_log(&who, &given)?.settings))
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object")]
struct Index {
    ready: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object")]
struct Change {
    parameters: ParameterMap,
}

/// Returns the state of each graph.
pub(super) async fn index(State(app): AppState, body: RequestBody) -> JsonResult<Vec<ModelIndex>> {
    let Index { ready } = body.fields()?;
    Ok(Json(kserve::index(&app.servables(), ready)))
}

/// Answers `{name}/load` and `{name}/unload`.
pub(super) async fn change(
    who: RequestContext,
    Path(path): Path<String>,
    method: Method,
    uri: Uri,
    body: RequestBody,
) -> JsonResult {
    let Change { parameters } = body.fields()?;
    if let Some(name) = path.strip_suffix("/unload") {
        kserve::unload(&who, name, &parameters).await?;
    } else if let Some(name) = path.strip_suffix("/load") {
        kserve::load(&who, name, parameters).await?;
    } else {
        return Err(unknown_route(method, uri).await);
    }
    Ok(Json(json!({})))
}
