//! What tools for OpenVINO Model Server ask: `GET /v1/config`, the state of each graph that
//! `config.json` lists.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde_json::{Map, Value, json};

use super::{
    operation::{Group, Operation, Side},
    state::App,
};
use crate::servable::StateName;

pub(super) fn operations() -> Vec<Operation> {
    let config = Operation::get("/v1/config", config).about(
        Group::Models,
        "The state of each graph in the configuration",
    );
    vec![config.on(Side::Management)]
}

/// Graphs sorted by name. Each has one version, `1`. One that could not be loaded stays `LOADING`;
/// only its error code tells.
async fn config(State(app): State<Arc<App>>) -> Json<Value> {
    let states = app.servables.iter().map(|servable| {
        let (state, code) = match servable.state_name() {
            StateName::Loading | StateName::Waiting => ("LOADING", "OK"),
            StateName::Available => ("AVAILABLE", "OK"),
            StateName::Failed => ("LOADING", "FAILED_PRECONDITION"),
        };
        let status = json!({ "error_code": code, "error_message": code });
        let version = json!({ "version": "1", "state": state, "status": status });
        (
            servable.name().to_owned(),
            json!({ "model_version_status": [version] }),
        )
    });
    Json(Value::Object(states.collect::<Map<_, _>>()))
}
