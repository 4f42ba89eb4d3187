//! `GET /v1/config`: the state of each graph, sorted by name. A graph has one version, `1`. One that could not be loaded stays
//! `LOADING`; only its error code tells.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde_json::{Map, Value, json};

use crate::{app::App, servable::StateName};

pub(super) async fn config(State(app): State<Arc<App>>) -> Json<Value> {
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
