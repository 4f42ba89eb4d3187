//! Endpoints for tools of OpenVINO Model Server: `GET /v1/config`, the state of each graph that
//! `config.json` lists, and `POST /v1/config/reload`.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::{
    AppState,
    operation::{Answer, Group, Operation, Side},
};
use crate::{
    errors::{Cause, Failure},
    run::RequestContext,
    servable::{Servable, StateName},
};

#[rustfmt::skip]
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/v1/config", config).about(Group::Models, "The state of each graph in the configuration").on(Side::Management),
        Operation::post("/v1/config/reload", reload)
            .about(Group::Models, "Reads the configuration again and serves it, if all of its graphs can be loaded").answers(Answer::Reload).on(Side::Management),
    ]
}

/// Answers with the states of the graphs in the new configuration, and status 201 if one has
/// changed. If the new configuration has errors, the old one stays.
async fn reload(State(app): AppState, who: RequestContext) -> Response {
    let (served, actor) = (Arc::clone(&app.runner.served), who.key());
    let reloading = spawn_blocking(move || served.reload_for(actor.as_deref(), None));
    let Ok(reloaded) = reloading.await else {
        let error = json!({ "error": Failure::stopping().message });
        return (StatusCode::SERVICE_UNAVAILABLE, Json(error)).into_response();
    };
    match reloaded {
        Ok(changes) => {
            let status = if changes.is_empty() {
                StatusCode::OK
            } else {
                StatusCode::CREATED
            };
            (status, config(State(app)).await).into_response()
        }
        Err(refused) => {
            let status = if refused.unreadable {
                StatusCode::BAD_REQUEST
            } else {
                StatusCode::PRECONDITION_FAILED
            };
            let failure = Failure::new(Cause::BadRequest, refused.reason.as_str());
            who.entry
                .failed(&failure.with_code("configuration_refused"));
            let error = json!({ "error": refused.reason, "diagnostics": refused.diagnostics });
            (status, Json(error)).into_response()
        }
    }
}

/// Lists graphs by name with their versions. A graph without versions has the version `1`. A
/// version that is not served has the reason as its error.
async fn config(State(app): AppState) -> Json<Value> {
    let servables = app.servables();
    let mut graphs: BTreeMap<&str, Vec<&Servable>> = BTreeMap::new();
    for servable in servables.iter() {
        graphs.entry(servable.graph()).or_default().push(servable);
    }
    let states = graphs.into_iter().map(|(graph, mut versions)| {
        versions.sort_by_key(|servable| servable.version());
        let versions: Vec<Value> = versions.into_iter().map(version).collect();
        let status = json!({ "model_version_status": versions });
        (graph.to_owned(), status)
    });
    Json(states.collect())
}

fn version(servable: &Servable) -> Value {
    let (state, code) = match servable.state_name() {
        StateName::Waiting => ("LOADING", "OK"),
        StateName::Failed => ("END", "FAILED_PRECONDITION"),
        other => (other.as_str(), "OK"),
    };
    let reason = servable.failure();
    let message = reason.map_or(code.to_owned(), |reason| reason.to_string());
    let number = servable.version().unwrap_or(1);
    json!({
        "version": number.to_string(),
        "state": state,
        "status": { "error_code": code, "error_message": message },
    })
}
