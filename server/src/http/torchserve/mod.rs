//! TorchServe's API: `/predictions` runs a graph of one input with the body of the request,
//! `/models` says what is served, `/ping` is for probes. What would change the models is refused:
//! the configuration says what is served.

mod input;
mod models;
mod output;
mod predict;

use std::sync::Arc;

use axum::{extract::State, http::StatusCode, response::Response};
use serde_json::{Value, json};

use super::{
    kserve,
    operation::{Answer, Group, OF_GRAPHS, Operation, Side},
};
use crate::{
    app::state::App,
    errors::{Cause, Failure},
};

/// Why a question about a graph may not be answered.
const OF_A_GRAPH: &[Cause] = &[Cause::BadRequest, Cause::UnknownModel];

#[rustfmt::skip]
pub(super) fn operations() -> Vec<Operation> {
    use Answer::{Any, Health, Json, List};
    use Group::{Models, Server, Tensors};
    let change = |operation: Operation| {
        let change = operation.about(Models, "Refused: the configuration says what is served");
        change.refuses(&[Cause::Unsupported]).on(Side::Management)
    };
    let operations = [
        Operation::get("/ping", ping).about(Server, "The same as `/v2/health/ready`, as TorchServe says it").answers(Health),
        Operation::post("/predictions/{*name}", predict::predict).about(Tensors, "Runs a graph with the body, as TorchServe does").answers(Any)
            .refuses(OF_GRAPHS),
        Operation::get("/models", models::list).about(Models, "The graphs, as TorchServe lists them").answers(Json(&["models"]))
            .refuses(OF_A_GRAPH).on(Side::Management),
        Operation::get("/models/{*name}", models::describe).about(Models, "One of them").answers(List).refuses(OF_A_GRAPH).on(Side::Management),
        change(Operation::post("/models", models::refused("graphs are registered by adding them to the configuration"))),
        change(Operation::put("/models/{*name}", models::refused(
            "graphs have no workers to scale and no default version to set: sessions run side by side, and the configuration says which versions are served",
        ))),
        change(Operation::delete("/models/{*name}", models::refused("graphs are unregistered by taking them out of the configuration"))),
    ];
    operations.map(|operation| operation.listed(false)).into()
}

/// Whether failures under a path are told as TorchServe's clients expect.
pub(super) fn owns(path: &str) -> bool {
    let of_models = path.strip_prefix("/models");
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
    kserve::told(json!({ "status": status }), "ready", reason)
}

/// A path behind `/predictions` or `/models`: the name of a graph, which can have slashes, and
/// perhaps a version, as a number or as TorchServe writes it, `1.0`.
fn named(path: &str, is_found: impl Fn(&str) -> bool) -> (&str, &str) {
    if is_found(path) {
        return (path, "");
    }
    match path.rsplit_once('/') {
        Some((name, version)) if version.starts_with(|c: char| c.is_ascii_digit()) => {
            (name, version.strip_suffix(".0").unwrap_or(version))
        }
        _ => (path, ""),
    }
}
