//! TorchServe's API: `/predictions` runs a graph of one input with the body of the request,
//! `/models` says what is served, `/ping` is for probes. What would change the models is refused:
//! the configuration says what is served.

mod predict;

use std::{
    future::{Ready, ready},
    sync::Arc,
};

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
    response::Response,
};
use serde_json::{Value, json};

use super::{
    operation::{Answer, Group, OF_GRAPHS, Operation, Side},
    request::Query,
    residence,
};
use crate::{
    app::state::App,
    errors::{Cause, Failure},
    http,
    kserve::{self, Label, wrong},
    run::RequestContext,
    servable::Servable,
};

/// Why a question about a graph may not be answered.
const OF_A_GRAPH: &[Cause] = &[Cause::BadRequest, Cause::UnknownModel];

#[rustfmt::skip]
pub(super) fn operations() -> Vec<Operation> {
    use Answer::{Any, Health, List};
    use Group::{Models, Server, Tensors};
    let change = |operation: Operation| {
        let change = operation.about(Models, "Refused: the configuration says what is served");
        change.refuses(&[Cause::Unsupported]).on(Side::Management)
    };
    let operations = [
        Operation::get("/ping", ping).about(Server, "The same as `/v2/health/ready`, as TorchServe says it").answers(Health),
        Operation::post("/predictions/{*name}", predict::predict).about(Tensors, "Runs a graph with the body, as TorchServe does").answers(Any)
            .refuses(OF_GRAPHS),
        Operation::get("/models", list_graphs).about(Models, "The graphs, as TorchServe lists them").answers(Answer::Json(&["models"]))
            .refuses(OF_A_GRAPH).on(Side::Management),
        Operation::get("/models/{*name}", describe).about(Models, "One of them").answers(List).refuses(OF_A_GRAPH).on(Side::Management),
        change(Operation::post("/models", refused("graphs are registered by adding them to the configuration"))),
        change(Operation::put("/models/{*name}", refused(
            "graphs have no workers to scale and no default version to set: sessions run side by side, and the configuration says which versions are served",
        ))),
        change(Operation::delete("/models/{*name}", refused("graphs are unregistered by taking them out of the configuration"))),
    ];
    operations.map(|operation| operation.listed(false)).into()
}

/// Whether failures under a path are told as TorchServe's clients expect.
pub(super) fn owns(path: &str) -> bool {
    let of_models = path
        .strip_prefix("/models")
        .filter(|_| !residence::owns(path));
    path.starts_with("/predictions/")
        || of_models.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A failure as TorchServe's clients expect it.
pub(super) fn error(failure: &Failure) -> Value {
    let status = failure.row().status;
    json!({ "code": status.as_u16(), "type": kind(failure.cause, status), "message": failure.message })
}

/// The exceptions of TorchServe that stand for a failure.
fn kind(cause: Cause, status: StatusCode) -> &'static str {
    match cause {
        Cause::UnknownModel => return "ModelNotFoundException",
        Cause::Unsupported => return "NotImplementedException",
        _ => {}
    }
    match status {
        StatusCode::NOT_FOUND => "ResourceNotFoundException",
        StatusCode::METHOD_NOT_ALLOWED => "MethodNotAllowedException",
        StatusCode::PAYLOAD_TOO_LARGE => "RequestEntityTooLargeException",
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "InvalidKeyException",
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
            "ServiceUnavailableException"
        }
        status if status.is_client_error() => "BadRequestException",
        _ => "InternalServerException",
    }
}

async fn ping(State(app): State<Arc<App>>) -> Response {
    let reason = app.unready();
    let status = if reason.is_none() {
        "Healthy"
    } else {
        "Unhealthy"
    };
    http::kserve::told(json!({ "status": status }), "ready", reason)
}

/// A path behind `/predictions` or `/models`: the name of a graph, which can have slashes, and
/// perhaps a version, as a number or as TorchServe writes it, `1.0`.
fn named<'a>(who: &RequestContext, path: &'a str) -> (&'a str, &'a str) {
    if who.find(path).is_ok() {
        return (path, "");
    }
    match path.rsplit_once('/') {
        Some((name, version)) if version.starts_with(|c: char| c.is_ascii_digit()) => {
            (name, version.strip_suffix(".0").unwrap_or(version))
        }
        _ => (path, ""),
    }
}

/// Maximum number of graphs of a page, where the request does not say it.
const PAGE: usize = 100;

/// Reads which graphs are listed: the first, and how many.
fn page(query: &Query) -> Result<(usize, usize), Failure> {
    let number = |name, usual| {
        let value = query.one(name)?.map(str::parse);
        let number = value.unwrap_or(Ok(usual));
        number.map_err(|_| wrong(name, "it is a whole number"))
    };
    let (first, limit) = (number("next_page_token", 0)?, number("limit", PAGE)?);
    if limit == 0 {
        return Err(wrong("limit", "it is at least 1"));
    }
    Ok((first, limit))
}

/// The names of the graphs.
async fn list_graphs(who: RequestContext, query: Query) -> Result<Json<Value>, Failure> {
    let (first, limit) = page(&query)?;
    let servables = who.servables();
    let names = servables.iter().map(Servable::graph);
    let mut names: Vec<&str> = names.filter(|name| who.sees(name, None)).collect();
    names.dedup();
    let shown = names.iter().skip(first).take(limit);
    let models: Vec<Value> = shown
        .map(|name| json!({ "modelName": name, "modelUrl": name }))
        .collect();
    let mut answer = json!({ "models": models });
    let next = first.saturating_add(limit);
    if next < names.len() {
        answer["nextPageToken"] = json!(next.to_string());
    }
    Ok(Json(answer))
}

/// A graph: the version that is named, or that requests would go to.
async fn describe(who: RequestContext, Path(path): Path<String>) -> Result<Json<Value>, Failure> {
    let (name, version) = named(&who, &path);
    let graph = kserve::find(&who, name, version)?;
    let Label { name, version } = Label::from(&*graph);
    Ok(Json(json!([{
        "modelName": name,
        "modelVersion": version,
        "modelUrl": name,
        "runtime": kserve::PLATFORM,
        "minWorkers": 1,
        "maxWorkers": 1,
        "batchSize": 1,
        "maxBatchDelay": 0,
        "loadedAtStartup": !graph.loads_on_demand(),
        "workers": [{ "id": "0", "status": kserve::state(&graph) }],
    }])))
}

/// A handler that refuses a change.
fn refused(why: &'static str) -> impl Fn() -> Ready<Failure> + Clone {
    move || ready(Failure::new(Cause::Unsupported, why))
}
