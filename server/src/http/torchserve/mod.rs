//! TorchServe's API: `/predictions` runs a graph of one input with the body of the request,
//! `/models` lists and changes the served graphs, and `/ping` is for probes.

mod predict;

use std::str::FromStr;

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
    response::Response,
};
use serde_json::{Value, json};

use super::{
    AppState, JsonResult,
    operation::{Answer, Group, OF_GRAPHS, Operation, Side},
    request::{Query, missing},
    residence,
};
use crate::{
    errors::{Cause, Failure, Result},
    http,
    kserve::wrong,
    run::RequestContext,
    torchserve::{self, models},
};

/// Causes of failures of questions about a graph.
const OF_A_GRAPH: &[Cause] = &[Cause::BadRequest, Cause::UnknownModel];

/// Causes of failures of changes.
const OF_A_CHANGE: &[Cause] = &[Cause::BadRequest, Cause::UnknownModel, Cause::Unsupported];

#[rustfmt::skip]
pub(super) fn operations() -> Vec<Operation> {
    use Answer::{Any, Health, List};
    use Group::{Models, Server, Tensors};
    let change = |operation: Operation, summary| {
        let change = operation.about(Models, summary).answers(Answer::Json(&["status"]));
        change.refuses(OF_A_CHANGE).on(Side::Management)
    };
    let operations = [
        Operation::get("/ping", ping).about(Server, "Same as `/v2/health/ready`, for TorchServe's clients").answers(Health),
        Operation::post("/predictions/{*name}", predict::predict).about(Tensors, "Runs a graph with the body, as TorchServe does").answers(Any)
            .refuses(OF_GRAPHS),
        Operation::get("/models", list_graphs).about(Models, "Lists the graphs, as TorchServe does").answers(Answer::Json(&["models"]))
            .refuses(OF_A_GRAPH).on(Side::Management),
        Operation::get("/models/{*name}", describe).about(Models, "Describes a graph, as TorchServe does").answers(List).refuses(OF_A_GRAPH).on(Side::Management),
        change(Operation::post("/models", register), "Adds a folder to the configuration, with `--allow_registration`"),
        change(Operation::put("/models/{*name}", change_graph), "Scales the threads of a graph that batches, or makes a version the default"),
        change(Operation::delete("/models/{*name}", unregister), "Removes a graph from the configuration, with `--allow_registration`"),
    ];
    operations.map(|operation| operation.listed(false)).into()
}

/// Returns true for paths whose failures have the form of TorchServe.
pub(super) fn owns(path: &str) -> bool {
    let of_models = path.strip_prefix("/models");
    let of_models = of_models.filter(|_| !residence::owns(path));
    path.starts_with("/predictions/")
        || of_models.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Formats a failure as TorchServe's clients expect.
pub(super) fn error(failure: &Failure) -> Value {
    let status = failure.row().status;
    json!({ "code": status.as_u16(), "type": kind(failure.cause, status), "message": failure.message })
}

/// Returns the name of TorchServe's exception for a failure.
fn kind(cause: Cause, status: StatusCode) -> &'static str {
    match (cause, status) {
        (Cause::UnknownModel, _) => "ModelNotFoundException",
        (Cause::Unsupported, _) => "NotImplementedException",
        (_, StatusCode::NOT_FOUND) => "ResourceNotFoundException",
        (_, StatusCode::METHOD_NOT_ALLOWED) => "MethodNotAllowedException",
        (_, StatusCode::PAYLOAD_TOO_LARGE) => "RequestEntityTooLargeException",
        (_, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => "InvalidKeyException",
        (_, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) => {
            "ServiceUnavailableException"
        }
        _ if status.is_client_error() => "BadRequestException",
        _ => "InternalServerException",
    }
}

async fn ping(State(app): AppState) -> Response {
    let (status, reason) = torchserve::health(&app);
    http::kserve::report(json!({ "status": status }), "ready", reason)
}

/// Reads a whole number from the query.
fn number<T: FromStr>(query: &Query, name: &'static str) -> Result<Option<T>> {
    let value = query.one(name)?.map(str::parse);
    let number = value.transpose();
    number.map_err(|_| wrong(name, "it is a whole number"))
}

async fn list_graphs(who: RequestContext, query: Query) -> JsonResult {
    let first = number(&query, "next_page_token")?.unwrap_or(0);
    let limit = number(&query, "limit")?.unwrap_or(models::PAGE);
    models::list(&who, first, limit).map(Json)
}

async fn describe(who: RequestContext, Path(path): Path<String>) -> JsonResult {
    let (name, version) = models::named(&who, &path);
    models::describe(&who, name, version).map(Json)
}

/// Suffix of the path that makes a version the default.
const SET_DEFAULT: &str = "/set-default";

async fn change_graph(who: RequestContext, Path(path): Path<String>, query: Query) -> JsonResult {
    if let Some(path) = path.strip_suffix(SET_DEFAULT) {
        let (name, version) = models::named(&who, path);
        return models::set_default(&who, name, version).map(Json);
    }
    query.check(&["min_worker", "max_worker", "synchronous", "timeout"])?;
    let (name, version) = models::named(&who, &path);
    let (least, most) = (number(&query, "min_worker")?, number(&query, "max_worker")?);
    models::scale(&who, (name, version), least, most).map(Json)
}

async fn register(State(app): AppState, who: RequestContext, query: Query) -> JsonResult {
    query.check(&["url", "model_name", "initial_workers", "synchronous"])?;
    models::check_workers(number(&query, "initial_workers")?)?;
    let url = query.one("url")?;
    let url = url.ok_or_else(|| missing("url", "it names the folder of a graph"))?;
    let name = query.one("model_name")?.unwrap_or_default();
    models::register(&app, &who, url, name).await.map(Json)
}

async fn unregister(
    State(app): AppState,
    who: RequestContext,
    Path(path): Path<String>,
) -> JsonResult {
    let (name, version) = models::named(&who, &path);
    let status = models::unregister(&app, &who, name, version).await?;
    Ok(Json(status))
}
