//! The KServe v2 dialect: health for probes. Live: the process answers, and nothing in it has
//! failed for good. Ready: requests would be served by all graphs that are not optional; or by the
//! graph that is asked for, which means that it is available and its engines step.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::{Method, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::{
    operation::{Answer, Group, Operation},
    state::App,
    unknown_route,
};
use crate::{
    keys::Caller,
    rescue::{Cause, Failure},
};

/// Why a question about a graph may not be answered.
const OF_A_GRAPH: &[Cause] = &[
    Cause::UnknownModel,
    Cause::UnknownRoute,
    Cause::WrongMethod,
    Cause::Panic,
    Cause::NoKey,
    Cause::Forbidden,
];

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/v2/health/live", live)
            .about(
                Group::Server,
                "Whether the process answers, and no engine has failed for good",
            )
            .answers(Answer::Health),
        Operation::get("/v2/health/ready", ready)
            .about(
                Group::Server,
                "Whether requests would be served by all graphs that are not optional",
            )
            .answers(Answer::Health),
        Operation::get("/v2/models/{*name}", model_ready)
            .about(
                Group::Server,
                "Whether requests for a graph would be served: its name, then `/ready`",
            )
            .answers(Answer::Health)
            .refuses(OF_A_GRAPH),
    ]
}

async fn live(State(app): State<Arc<App>>) -> Response {
    match app.servables().beyond_help() {
        None => Json(json!({ "live": true })).into_response(),
        Some(reason) => refused(json!({ "live": false, "reason": reason })),
    }
}

pub(super) async fn ready(State(app): State<Arc<App>>) -> Response {
    match app.unready() {
        None => Json(json!({ "ready": true })).into_response(),
        Some(reason) => refused(json!({ "ready": false, "reason": reason })),
    }
}

/// As [`ready`], for the graph that a path names.
async fn model_ready(
    State(app): State<Arc<App>>,
    caller: Option<Extension<Arc<Caller>>>,
    Path(path): Path<String>,
    method: Method,
    uri: Uri,
) -> Result<Response, Failure> {
    let Some(name) = path.strip_suffix("/ready") else {
        return Err(unknown_route(method, uri).await);
    };
    let caller = caller.as_ref().map(|caller| &*caller.0);
    let servable = app.find(name, caller)?.servable;
    let reason = app.stopping().or_else(|| servable.unready());
    let name = servable.name();
    Ok(match reason {
        None => Json(json!({ "name": name, "ready": true })).into_response(),
        Some(reason) => refused(json!({ "name": name, "ready": false, "reason": reason })),
    })
}

fn refused(body: Value) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
}
