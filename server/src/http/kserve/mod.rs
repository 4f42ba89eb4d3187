//! KServe's Open Inference Protocol over REST, `/v2`: health, descriptions of the server and its
//! graphs, runs of graphs with tensors, and the extensions of Triton that its clients use.

mod infer;
mod models;
mod request;
mod rows;

use axum::{
    Extension, Json,
    extract::{FromRequest as _, Path, Request, State},
    http::{Method, Uri},
    response::IntoResponse as _,
};
use graphmill_calculators::http::dialect::Target;
use serde_json::{Value, json};

pub(super) use models::{ready, report};

use super::{
    AppState, HttpResult, graph,
    operation::{Answer, Group, Operation, Parameter, ParameterKind, Side},
    request::RequestBody,
};
use crate::{
    errors::{Cause, Failure},
    kserve,
    run::RequestContext,
};

/// Causes of failures of questions about a graph.
#[rustfmt::skip]
const OF_A_GRAPH: &[Cause] = &[
    Cause::UnknownModel, Cause::UnknownRoute, Cause::QueueFull, Cause::Loading, Cause::GraphFailed, Cause::NoMemory, Cause::Deadline,
];

/// Causes of failures of requests with a body.
#[rustfmt::skip]
const OF_REQUESTS: &[Cause] = &[
    Cause::BadRequest, Cause::UnknownModel, Cause::UnknownRoute, Cause::NotFound, Cause::Unsupported, Cause::QueueFull, Cause::Loading,
    Cause::GraphFailed, Cause::Unavailable, Cause::Deadline, Cause::Cancelled, Cause::NodeFailed, Cause::NoAnswer, Cause::RateLimited,
];

/// Path that runs a graph.
pub(super) const INFER: &str = "/v2/models/{name}/infer";

/// Path of version 1 of the protocol, whose names end with a verb.
const OF_VERSION_1: &str = "/v1/models/{*name}";

#[rustfmt::skip]
const OF_A_RUN: &[Parameter] = &[
    Parameter::new("inputs", ParameterKind::Objects, "Input tensors, each with `name`, `datatype`, `shape` and `data`"),
    Parameter::new("outputs", ParameterKind::OptionalObjects, "Outputs to return, each with `name`. Default: all"),
    Parameter::new("id", ParameterKind::OptionalText, "Value of `id` in the answer"),
    Parameter::new("parameters", ParameterKind::Object, "Side packets of the run, by name"),
];

/// Names of Triton's shared memory extensions, which are not supported.
const SHARED_MEMORY: [&str; 2] = ["systemsharedmemory", "cudasharedmemory"];

#[rustfmt::skip]
pub(super) fn operations() -> Vec<Operation> {
    use Answer::{Health, List};
    use Group::{Models, Server, Tensors};
    let managed = [
        Operation::post("/v2/repository/index", models::index).about(Models, "The state of each graph, for Triton's clients").answers(List),
        Operation::post("/v2/repository/models/{*name}", models::change).listed(false),
        Operation::behind("post", "/v2/repository/models/{name}/load").about(Models, "Loads a graph from its current files, for Triton's clients"),
        Operation::behind("post", "/v2/repository/models/{name}/unload").about(Models, "Unloads a graph until a request loads it by name"),
        Operation::get("/v2/logging", || async { Json(kserve::log_settings().settings) }).about(Server, "Returns the log settings").listed(false),
        Operation::post("/v2/logging", models::set_log).about(Server, "Changes the log settings").listed(false),
        Operation::get("/v2/trace/setting", |State(app): AppState| async move { models::trace_settings(&app) }).about(Server, "Returns the trace settings").listed(false),
        Operation::post("/v2/trace/setting", models::set_traces).about(Server, "Accepts only the current trace settings").listed(false),
    ];
    let refuse = || async { kserve::no_shared_memory() };
    let memory = SHARED_MEMORY.iter().flat_map(|memory| {
        let path = format!("/v2/{memory}/{{*rest}}");
        let refused = [Operation::get(&path, refuse), Operation::post(&path, refuse)];
        refused.map(|it| it.about(Server, "Refused: shared memory is not supported").refuses(OF_REQUESTS).listed(false))
    });
    let own = [
        Operation::get("/v2/health/live", models::live).about(Server, "Liveness: the process answers, and no engine has failed permanently")
            .answers(Health),
        Operation::get("/v2/health/ready", ready).about(Server, "Readiness: at least one graph answers requests").answers(Health),
        Operation::get("/v2", || async { Json(kserve::describe_server()) }).about(Server, "Name, version and extensions of the server")
            .answers(Answer::Json(&["name", "version", "extensions"])),
        Operation::get("/v2/models/stats", |State(app): AppState, who: RequestContext| async move { Json(app.statistics.read_all(&who)) }).about(Server, "Counts and times of the requests, by graph")
            .answers(Answer::Json(&["model_stats"])),
        Operation::get(graph::routes::BEHIND_GRAPH, get_model).about(Server, "The input and output tensors of a graph")
            .answers(Answer::Json(&["name", "versions", "inputs", "outputs"])).refuses(OF_A_GRAPH),
        Operation::behind("get", "/v2/models/{name}/ready").about(Server, "Readiness of a graph").answers(Health)
            .refuses(OF_A_GRAPH),
        Operation::behind("get", "/v2/models/{name}/config").about(Server, "Tensors of a graph, in the form of Triton's configuration")
            .answers(Answer::Json(&["name", "input", "output"])).refuses(OF_A_GRAPH),
        Operation::behind("get", "/v2/models/{name}/stats").about(Server, "Counts and times of a graph's requests").answers(Answer::Json(&["model_stats"]))
            .refuses(OF_A_GRAPH),
        Operation::post(graph::routes::BEHIND_GRAPH, post_model).listed(false),
        Operation::behind("post", INFER).about(Tensors, "Runs a graph with tensors").takes(OF_A_RUN)
            .answers(Answer::Json(&["model_name", "model_version", "outputs"])),
        Operation::post(OF_VERSION_1, rows::predict).about(Tensors, "Runs a graph with rows of tensors, as in version 1 of the protocol").answers(Answer::Any)
            .listed(false),
    ];
    let own = own.into_iter().chain(managed.map(|it| it.on(Side::Management)));
    let own = own.map(|it| if it.method == "post" { it.refuses(OF_REQUESTS) } else { it });
    own.chain(memory).collect()
}

/// Returns true for paths whose failures have KServe's form.
pub(super) fn owns(path: &str) -> bool {
    let own = ["models/", "repository/", "logging", "trace/", "health/"];
    let below = path.strip_prefix("/v2/");
    let is_own = |below: &str| {
        let mut all = own.iter().chain(&SHARED_MEMORY);
        all.any(|under| below.starts_with(under))
    };
    let is_first = path.starts_with("/v1/models/") && path.ends_with(rows::VERB);
    is_first || path == "/v2" || below.is_some_and(is_own)
}

/// Returns the methods of a path below a graph's name, if its route accepts more: the route covers
/// all such paths.
pub(super) fn methods(path: &str, is_in_dialect: bool) -> Option<&'static str> {
    let path = path.strip_prefix("/v2/models/")?;
    match read_path(path).2 {
        ModelQuestion::Tracing => None,
        ModelQuestion::Infer => Some("POST"),
        _ if is_in_dialect => Some("POST"),
        _ => Some("GET,HEAD"),
    }
}

/// Formats a failure as KServe's clients expect, with a string as its message.
pub(super) fn error(failure: &Failure) -> Value {
    json!({ "error": failure.message, "code": failure.code() })
}

/// Answers GET requests about a graph.
async fn get_model(
    State(app): AppState,
    who: RequestContext,
    target: Option<Extension<Target>>,
    Path(path): Path<String>,
    method: Method,
    uri: Uri,
) -> HttpResult {
    let (name, version, question) = read_path(&path);
    if question == ModelQuestion::Infer || target.is_some() {
        return Ok(super::wrong_method(target, method, uri).await);
    }
    models::answer(&app, &who, name, version, question).await
}

/// Answers POST requests to a graph.
async fn post_model(
    State(app): AppState,
    target: Option<Extension<Target>>,
    Path(path): Path<String>,
    request: Request,
) -> HttpResult {
    if target.is_some() {
        let (graph, _) = path.rsplit_once('/').unwrap_or_default();
        let (name, version) = versioned(graph.trim_end_matches('/'));
        return graph::answer_named(&app, name, version, request).await;
    }
    let (name, version, asked) = read_path(&path);
    match asked {
        ModelQuestion::Infer => infer::infer(&app, name, version, request).await,
        ModelQuestion::Tracing => {
            let body = RequestBody::from_request(request, &app).await?;
            let settings = models::set_traces(State(app), body).await?;
            Ok(settings.into_response())
        }
        // These questions are answered only for GET.
        _ => {
            let (parts, _) = request.into_parts();
            Ok(super::wrong_method(None, parts.method, parts.uri).await)
        }
    }
}

/// The kind of a request about a graph.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum ModelQuestion {
    Metadata,
    Ready,
    Config,
    Statistics,
    Tracing,
    Infer,
}

/// Splits a path into the name and the version of a graph. The version is empty if the path has
/// none.
fn versioned(path: &str) -> (&str, &str) {
    match path.rsplit_once("/versions/") {
        Some((name, version)) if !version.contains('/') => (name, version),
        _ => (path, ""),
    }
}

/// Reads a path under `/v2/models`: the name of a graph, its version or an empty string, and the
/// question.
fn read_path(path: &str) -> (&str, &str, ModelQuestion) {
    let ends = [
        ("/ready", ModelQuestion::Ready),
        ("/config", ModelQuestion::Config),
        ("/stats", ModelQuestion::Statistics),
        ("/trace/setting", ModelQuestion::Tracing),
        ("/infer", ModelQuestion::Infer),
    ];
    let mut found = ends.into_iter();
    let found = found.find_map(|(end, asked)| Some((path.strip_suffix(end)?, asked)));
    let (path, asked) = found.unwrap_or((path, ModelQuestion::Metadata));
    let (name, version) = versioned(path);
    (name, version, asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_from_their_ends() {
        for (path, name, version, asked) in [
            ("a", "a", "", ModelQuestion::Metadata),
            ("a/b/ready", "a/b", "", ModelQuestion::Ready),
            ("a/versions/1/infer", "a", "1", ModelQuestion::Infer),
            (
                "a/versions/b/c",
                "a/versions/b/c",
                "",
                ModelQuestion::Metadata,
            ),
            ("ready/trace/setting", "ready", "", ModelQuestion::Tracing),
        ] {
            assert_eq!(read_path(path), (name, version, asked), "{path}");
        }
    }
}
