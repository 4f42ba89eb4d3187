//! Ollama's paths besides those of dialects: what is served, which of it is in memory, and what its
//! clients look for at start. What would change the models is refused: the configuration says what
//! is served.

mod models;

use std::future::{Ready, ready};

use axum::{
    Json,
    http::header,
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    frames,
    operation::{Answer, Group, OF_GRAPHS, Operation},
    request::{RequestBody, missing},
};
use crate::{
    errors::{Cause, Failure},
    run::RequestContext,
    servable::StateName,
};

/// The version of Ollama whose API this is, which clients compare with those that brought what they
/// need. That of this program is beside it.
const API_VERSION: &str = "0.12.11";

#[rustfmt::skip]
pub(super) fn operations() -> Vec<Operation> {
    use Group::{Models, Server};
    let change = |operation: Operation| {
        let change = operation.about(Models, "Refused: the configuration says what is served");
        change.refuses(&[Cause::Unsupported])
    };
    let named = "models are named by the configuration: list a graph under each name that it has";
    let blobs = "models are no blobs: the configuration names their files";
    let operations = [
        Operation::get("/api/version", version).about(Server, "The version of Ollama's API, for its clients").answers(Answer::Json(&["version"])),
        Operation::get("/api/tags", models::list).about(Models, "The graphs, as Ollama lists models").answers(Answer::Json(&["models"])),
        Operation::get("/api/ps", models::running).about(Models, "Those in memory").answers(Answer::Json(&["models"])),
        Operation::post("/api/show", models::show).about(Models, "One of them").answers(Answer::Json(&["details", "model_info", "capabilities"]))
            .refuses(OF_GRAPHS),
        Operation::post("/api/pull", pull).about(Models, "Whether a model is there").answers(Answer::Json(&["status"]))
            .refuses(&[Cause::BadRequest, Cause::UnknownModel]),
        change(Operation::post("/api/create", refused("models are made of files that the configuration names: `graphmill serve --help`"))),
        change(Operation::post("/api/copy", refused(named))),
        change(Operation::delete("/api/delete", refused("graphs are unregistered by taking them out of the configuration"))),
        change(Operation::post("/api/push", refused("models are not uploaded"))),
        change(Operation::get("/api/blobs/{*digest}", refused(blobs))),
        change(Operation::post("/api/blobs/{*digest}", refused(blobs))),
    ];
    operations.map(|operation| operation.listed(false)).into()
}

/// Returns true if failures under a path are told as Ollama's clients expect.
pub(super) fn owns(path: &str) -> bool {
    path.starts_with("/api/")
}

async fn version() -> Json<Value> {
    Json(json!({ "version": API_VERSION, "graphmill": env!("CARGO_PKG_VERSION") }))
}

/// A body that names a model.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Asked {
    model: Option<String>,
    /// The name that `model` had before.
    name: Option<String>,
    stream: Option<bool>,
}

impl Asked {
    fn model(&self) -> Result<&str, Failure> {
        let given = self.model.iter().chain(&self.name);
        let mut given = given.filter(|name| !name.is_empty());
        let why = "it names the graph";
        given
            .next()
            .map(String::as_str)
            .ok_or_else(|| missing("model", why))
    }
}

/// Says that a model is there. Those that are not are fetched by the program, not by its clients.
async fn pull(who: RequestContext, body: RequestBody) -> Result<Response, Failure> {
    let asked: Asked = body.fields()?;
    let name = asked.model()?;
    let found = who.find(name).map_err(|failure| {
        let why = &failure.message;
        let message = format!(
            "{why}; `graphmill pull org/repo` fetches a model of Hugging Face, and `graphmill serve` serves it"
        );
        Failure::new(Cause::UnknownModel, message).of_field("model")
    })?;
    if found.servable.state_name() == StateName::Failed {
        let why = found.servable.failure();
        let message = format!(
            "`{name}` could not be loaded: {}",
            why.as_deref().unwrap_or_default()
        );
        return Err(Failure::new(Cause::GraphFailed, message).of_field("model"));
    }
    let status = json!({ "status": "success" });
    if asked.stream == Some(false) {
        return Ok(Json(status).into_response());
    }
    let lines = [(header::CONTENT_TYPE, frames::LINES)];
    Ok((lines, format!("{status}\n")).into_response())
}

/// A handler that refuses a change.
fn refused(why: &'static str) -> impl Fn() -> Ready<Failure> + Clone {
    move || ready(Failure::new(Cause::Unsupported, why))
}
