//! KServe's Open Inference Protocol over REST, `/v2`: health, what the server and its graphs are,
//! runs of graphs with tensors, and the extensions of Triton that its clients call.

mod answer;
mod binary;
mod health;
mod infer;
mod metadata;
mod path;
mod repository;
mod request;

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, Request, State},
    http::{Method, Uri},
    response::{IntoResponse as _, Response},
};
use graphmill_calculators::http::dialect::Target;
use serde_json::{Value, json};

pub(super) use health::{ready, told};
use path::ModelQuestion;

use super::{
    asker::Asker,
    graph,
    operation::{Answer, Group, Kind, Operation, Parameter, Side},
    unknown_route,
};
use crate::{
    app::state::App,
    errors::{Cause, Failure},
    kserve,
};

/// Why a question about a graph may not be answered.
#[rustfmt::skip]
const OF_A_GRAPH: &[Cause] = &[Cause::UnknownModel, Cause::UnknownRoute, Cause::Loading, Cause::GraphFailed];

/// Why what is sent may not be answered.
#[rustfmt::skip]
const OF_REQUESTS: &[Cause] = &[
    Cause::BadRequest, Cause::UnknownModel, Cause::UnknownRoute, Cause::NotFound, Cause::Unsupported, Cause::QueueFull, Cause::Loading,
    Cause::GraphFailed, Cause::Unavailable, Cause::Deadline, Cause::Cancelled, Cause::NodeFailed, Cause::NoAnswer, Cause::RateLimited,
];

/// The path of a run of a graph.
pub(super) const INFER: &str = "/v2/models/{name}/infer";

#[rustfmt::skip]
const OF_A_RUN: &[Parameter] = &[
    Parameter::new("inputs", Kind::Objects, "The tensors: `name`, `datatype`, `shape` and `data` of each"),
    Parameter::new("outputs", Kind::OptionalObjects, "The only outputs that are answered: `name` of each; all"),
    Parameter::new("id", Kind::OptionalText, "What the answer has for `id`"),
    Parameter::new("parameters", Kind::Object, "The side packets of the run"),
];

/// Shared memory, of which there is none.
const SHARED_MEMORY: [&str; 2] = ["systemsharedmemory", "cudasharedmemory"];

#[rustfmt::skip]
pub(super) fn operations() -> Vec<Operation> {
    use Answer::{Health, Json, List};
    use Group::{Models, Server, Tensors};
    let managed = [
        Operation::post("/v2/repository/index", repository::index).about(Models, "The state of each graph, for Triton's clients").answers(List),
        Operation::post("/v2/repository/models/{*name}", repository::change).listed(false),
        Operation::behind("post", "/v2/repository/models/{name}/load").about(Models, "Reads the configuration again, for Triton's clients"),
        Operation::get("/v2/logging", metadata::logging).about(Server, "How much is logged").listed(false),
        Operation::post("/v2/logging", || async { kserve::refuse_settings("log", "--log_level") }).about(Server, "Refused: `--log_level` says it").listed(false),
        Operation::get("/v2/trace/setting", metadata::tracing).about(Server, "Whether requests are traced").listed(false),
        Operation::post("/v2/trace/setting", metadata::set_tracing).about(Server, "Refused: `--otlp_endpoint` says it").listed(false),
    ];
    let refuse = || async { kserve::no_shared_memory() };
    let memory = SHARED_MEMORY.iter().flat_map(|memory| {
        let path = format!("/v2/{memory}/{{*rest}}");
        let refused = [Operation::get(&path, refuse), Operation::post(&path, refuse)];
        refused.map(|it| it.about(Server, "Refused: there is no shared memory").refuses(OF_REQUESTS).listed(false))
    });
    let own = [
        Operation::get("/v2/health/live", health::live).about(Server, "Whether the process answers, and no engine has failed for good")
            .answers(Health),
        Operation::get("/v2/health/ready", ready).about(Server, "Whether requests would be served, by one graph at least").answers(Health),
        Operation::get("/v2", metadata::server).about(Server, "Name, version and extensions of the server")
            .answers(Json(&["name", "version", "extensions"])),
        Operation::get("/v2/models/stats", metadata::all_statistics).about(Server, "Counts and times of the requests, by graph")
            .answers(Json(&["model_stats"])),
        Operation::get(graph::routes::BEHIND_GRAPH, of_model).about(Server, "The tensors that a graph takes and gives")
            .answers(Json(&["name", "versions", "inputs", "outputs"])).refuses(OF_A_GRAPH),
        Operation::behind("get", "/v2/models/{name}/ready").about(Server, "Whether requests to a graph would be served").answers(Health)
            .refuses(OF_A_GRAPH),
        Operation::behind("get", "/v2/models/{name}/config").about(Server, "Its tensors, in the form of Triton's configuration")
            .answers(Json(&["name", "input", "output"])).refuses(OF_A_GRAPH),
        Operation::behind("get", "/v2/models/{name}/stats").about(Server, "Counts and times of its requests").answers(Json(&["model_stats"]))
            .refuses(OF_A_GRAPH),
        Operation::post(graph::routes::BEHIND_GRAPH, infer).listed(false),
        Operation::behind("post", INFER).about(Tensors, "Runs a graph with tensors").takes(OF_A_RUN)
            .answers(Json(&["model_name", "model_version", "outputs"])),
    ];
    let own = own.into_iter().chain(managed.map(|it| it.on(Side::Management)));
    let own = own.map(|it| if it.method == "post" { it.refuses(OF_REQUESTS) } else { it });
    own.chain(memory).collect()
}

/// Whether failures under a path are told as KServe's clients expect.
pub(super) fn owns(path: &str) -> bool {
    let own = ["models/", "repository/", "logging", "trace/", "health/"];
    let below = path.strip_prefix("/v2/");
    let is_own = |below: &str| {
        let mut all = own.iter().chain(&SHARED_MEMORY);
        all.any(|under| below.starts_with(under))
    };
    path == "/v2" || below.is_some_and(is_own)
}

/// The methods of a path, perhaps of a dialect, where its route takes more: those of all paths
/// behind a graph.
pub(super) fn methods(path: &str, is_in_dialect: bool) -> Option<&'static str> {
    let path = path.strip_prefix("/v2/models/")?;
    match path::read(path).2 {
        ModelQuestion::Tracing => None,
        ModelQuestion::Infer => Some("POST"),
        _ if is_in_dialect => Some("POST"),
        _ => Some("GET,HEAD"),
    }
}

/// A failure as KServe's clients expect it: its message is a string.
pub(super) fn error(failure: &Failure) -> Value {
    json!({ "error": failure.message, "code": failure.code() })
}

/// What is asked about a graph.
async fn of_model(
    State(app): State<Arc<App>>,
    asker: Asker,
    target: Option<Extension<Target>>,
    Path(path): Path<String>,
    method: Method,
    uri: Uri,
) -> Result<Response, Failure> {
    let (name, version, question) = path::read(&path);
    if question == ModelQuestion::Infer || target.is_some() {
        return Ok(super::wrong_method(target, method, uri).await);
    }
    let find = |name: &str| app.runner.find(name, asker.caller());
    let (_, servable) = kserve::find_version(find, name, version)?;
    match question {
        ModelQuestion::Ready => Ok(health::of_model(&app, &servable)),
        ModelQuestion::Metadata => Ok(metadata::of_model(&servable)?.into_response()),
        ModelQuestion::Config => Ok(metadata::config(&servable)?.into_response()),
        ModelQuestion::Statistics => Ok(metadata::statistics(&app, &servable).into_response()),
        ModelQuestion::Tracing => Ok(metadata::tracing(State(app)).await.into_response()),
        ModelQuestion::Infer => Err(unknown_route(method, uri).await),
    }
}

/// What is sent to a graph.
async fn infer(
    State(app): State<Arc<App>>,
    target: Option<Extension<Target>>,
    Path(path): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    if target.is_some() {
        let (graph, _) = path.rsplit_once('/').unwrap_or_default();
        let (name, version) = path::versioned(graph.trim_end_matches('/'));
        return graph::of_named(&app, name, version, request).await;
    }
    let (name, version, asked) = path::read(&path);
    match asked {
        ModelQuestion::Infer => infer::infer(&app, name, version, request).await,
        ModelQuestion::Tracing => Err(metadata::set_tracing().await),
        // What is only asked.
        _ => {
            let (parts, _) = request.into_parts();
            Ok(super::wrong_method(None, parts.method, parts.uri).await)
        }
    }
}
