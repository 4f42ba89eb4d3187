//! Ollama's paths that do not belong to a dialect: the list of models, the models in memory, and
//! the version that clients ask for at start. Changes of models are refused: the configuration
//! decides what is served.

mod models;

use axum::{Json, http::header, response::IntoResponse as _};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    HttpResult, frames,
    operation::{Answer, Group, OF_GRAPHS, Operation, refused},
    request::{RequestBody, missing},
};
use crate::{
    errors::{Cause, Failure, Result},
    run::RequestContext,
    servable::StateName,
};

/// Version of Ollama whose API this is. Clients compare it with the version that they need. The
/// answer also contains this program's version.
const API_VERSION: &str = "0.12.11";

#[rustfmt::skip]
pub(super) fn operations() -> Vec<Operation> {
    use Group::{Models, Server};
    let change = |operation: Operation| {
        let change = operation.about(Models, "Refused: the configuration decides what is served");
        change.refuses(&[Cause::Unsupported])
    };
    let named = "the configuration names models: list a graph under each of its names";
    let blobs = "blobs are not supported: the configuration names files of models";
    let operations = [
        Operation::get("/api/version", version).about(Server, "The version of Ollama's API, for its clients").answers(Answer::Json(&["version"])),
        Operation::get("/api/tags", models::list).about(Models, "The graphs, as Ollama lists models").answers(Answer::Json(&["models"])),
        Operation::get("/api/ps", models::running).about(Models, "Lists the graphs in memory").answers(Answer::Json(&["models"])),
        Operation::post("/api/show", models::show).about(Models, "Describes a graph").answers(Answer::Json(&["details", "model_info", "capabilities"]))
            .refuses(OF_GRAPHS),
        Operation::post("/api/pull", pull).about(Models, "Reports success if the model exists").answers(Answer::Json(&["status"]))
            .refuses(&[Cause::BadRequest, Cause::UnknownModel]),
        change(Operation::post("/api/create", refused("the configuration names the files of models: see `graphmill serve --help`"))),
        change(Operation::post("/api/copy", refused(named))),
        change(Operation::delete("/api/delete", refused("to remove a graph, remove it from the configuration"))),
        change(Operation::post("/api/push", refused("models are not uploaded"))),
        change(Operation::get("/api/blobs/{*digest}", refused(blobs))),
        change(Operation::post("/api/blobs/{*digest}", refused(blobs))),
    ];
    operations.map(|operation| operation.listed(false)).into()
}

/// Returns true for paths whose failures have the form of Ollama.
pub(super) fn owns(path: &str) -> bool {
    path.starts_with("/api/")
}

async fn version() -> Json<Value> {
    Json(json!({ "version": API_VERSION, "graphmill": env!("CARGO_PKG_VERSION") }))
}

/// The fields of a body that names a model.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ModelQuery {
    model: Option<String>,
    /// Older name of the field `model`.
    name: Option<String>,
    stream: Option<bool>,
}

impl ModelQuery {
    fn model(&self) -> Result<&str> {
        let mut given = self.model.iter().chain(&self.name);
        let name = given.find(|name| !name.is_empty());
        let name = name.ok_or_else(|| missing("model", "it names the graph"))?;
        Ok(name)
    }
}

/// Reports that a model exists. Models are downloaded by the command line, not by clients.
async fn pull(who: RequestContext, body: RequestBody) -> HttpResult {
    let asked: ModelQuery = body.fields()?;
    let name = asked.model()?;
    let found = who.find(name).map_err(|failure| {
        let why = &failure.message;
        let message = format!(
            "{why}; `graphmill pull org/repo` fetches a model of Hugging Face, and `graphmill serve` serves it"
        );
        Failure::new(Cause::UnknownModel, message).with_field("model")
    })?;
    if found.servable.state_name() == StateName::Failed {
        let why = found.servable.failure().unwrap_or_default();
        let message = format!("`{name}` could not be loaded: {why}");
        return Err(Failure::new(Cause::GraphFailed, message).with_field("model"));
    }
    let status = json!({ "status": "success" });
    if asked.stream == Some(false) {
        return Ok(Json(status).into_response());
    }
    let lines = [(header::CONTENT_TYPE, frames::LINES)];
    Ok((lines, format!("{status}\n")).into_response())
}
