//! The REST API. `graph` answers requests to graphs in all dialects. `dialect_errors` formats
//! failures for each dialect. The other modules each have the remaining paths of a family of
//! servers.

pub(crate) mod access;
mod api;
mod cancel;
pub(crate) mod dialect_errors;
mod example;
mod frames;
mod graph;
mod hugging_face;
pub(crate) mod kserve;
mod llama_server;
mod lora;
pub(crate) mod media;
mod observe;
mod ollama;
mod openai;
mod openllm;
mod operation;
mod ovms;
mod page;
mod request;
mod residence;
mod status;
mod timings;
mod torchserve;
mod vllm;

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    extract::State,
    http::{HeaderMap, HeaderValue, Method, Uri, header::ALLOW},
    response::{IntoResponse, Response},
};
use graphmill_calculators::http::dialect::Target;
use graphmill_engine::shortened;
use graphmill_grammar::suggest;
use serde_json::Value;

use crate::app::state::App;
pub(crate) use graph::{first_response, routes::Targets, when_to_retry};
pub(crate) use operation::Side;
use operation::{Answer, Group, Operation};

use crate::{
    errors::{Cause, Failure, Result},
    keys::Permission,
    metrics,
};

/// Extractor of the state that all handlers share.
type AppState = State<Arc<App>>;

/// The result of a handler that answers with JSON.
type JsonResult<T = Value> = Result<Json<T>>;

/// The result of any other handler.
type HttpResult = Result<Response>;

/// Returns the metrics for Prometheus.
async fn scrape(State(app): AppState, headers: HeaderMap) -> HttpResult {
    if app.options.serves_metrics {
        return Ok(app.metrics.scrape(&headers)?.into_response());
    }
    let why = "metrics are turned off (`--enable_metrics_api`)";
    Err(Failure::new(Cause::UnknownRoute, why))
}

/// Returns all operations; `web` includes the page.
#[rustfmt::skip]
fn operations(web: bool) -> Vec<Operation> {
    let own = [
        Operation::get("/v3/status", status::status).about(Group::Server, "The current activity of each engine and each graph")
            .answers(Answer::Json(&["version", "engines", "graphs"])).on(Side::Management),
        Operation::get("/metrics", scrape).about(Group::Server, "Metrics in Prometheus format")
            .answers(Answer::Text(&metrics::CONTENT_TYPES)).on(Side::Management),
        Operation::get("/health", kserve::ready).about(Group::Server, "Same as `/v2/health/ready`, at a common path").answers(Answer::Health),
        Operation::post("/invocations", graph::invocation).about(Group::Generation, "A chat, completion, embedding or rerank request of SageMaker, distinguished by its fields")
            .answers(Answer::Any).refuses(operation::OF_GRAPHS).listed(false),
        Operation::get("/v1/health", kserve::ready).about(Group::Server, "Same as `/v2/health/ready`, at a common path")
            .answers(Answer::Health).listed(false),
    ];
    let dialects = [
        graph::routes::operations(),
        openai::operations(),
        ollama::operations(),
        ovms::operations(),
        kserve::operations(),
        torchserve::operations(),
        hugging_face::operations(),
        llama_server::operations(),
        cancel::operations(),
        residence::operations(),
        openllm::operations(),
        vllm::operations(),
        lora::operations(),
        observe::operations(),
        api::operations(),
    ];
    let page = web.then(page::operations).into_iter();
    own.into_iter().chain(dialects.into_iter().chain(page).flatten()).collect()
}

/// Maximum length in bytes of a path, a name or an id in an error.
const SHOWN_BYTES: usize = 150;

/// Maximum length in bytes of a method in an error. Clients can invent methods.
const MAX_METHOD_BYTES: usize = 20;

/// Returns the routes for clients or for operators; all routes if they share a listener.
pub(crate) fn routes(side: Side, web: bool) -> Router<Arc<App>> {
    let mut operations = operations(web);
    operations.retain(|operation| {
        side == Side::Both || operation.side == Side::Both || operation.side == side
    });
    let routes = operation::routes(operations);
    let others = (side != Side::Management).then(graph::routes::other_paths);
    routes
        .merge(others.unwrap_or_default())
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
}

/// Returns the routes of a listener for scrapers.
pub(crate) fn metrics_routes() -> Router<Arc<App>> {
    let mut operations = operations(false);
    operations.retain(|operation| operation.path == "/metrics");
    operation::routes(operations).fallback(async |method: Method, uri: Uri| {
        unknown(&method, &uri, ": this port serves only `/metrics`")
    })
}

/// Returns the permission that each operation needs.
pub(crate) fn needs(web: bool) -> impl Iterator<Item = (Method, String, Permission)> {
    operations(web).into_iter().filter_map(|operation| {
        let need = operation.need();
        let method = Method::from_bytes(operation.method.to_ascii_uppercase().as_bytes());
        Some((method.ok()?, operation.path, need))
    })
}

/// Returns the operations that clients of a server can use.
fn offered(app: &App) -> Vec<Operation> {
    let mut offered = operations(app.options.web);
    offered.retain(|it| app.options.serves_metrics || it.path != "/metrics");
    if !app.options.management.is_empty() {
        offered.retain(|operation| operation.side != Side::Management);
    }
    offered
}

/// Returns the failure for a path without a route, with a hint.
pub(crate) async fn unknown_route(method: Method, uri: Uri) -> Failure {
    let path = &*shortened(uri.path(), SHOWN_BYTES);
    let operations = operations(false);
    let mut elsewhere = operations.iter().filter(|it| is_path(&it.path, uri.path()));
    let hint = match elsewhere.next().map(|operation| operation.side) {
        Some(Side::Management) => {
            ": it is available at the operators' port, `--management_port`".to_owned()
        }
        Some(Side::Public) => ": it is available at the clients' port, `--rest_port`".to_owned(),
        Some(Side::Both) | None => {
            let listed = operations.iter().filter(|operation| operation.listed);
            let near = below(path, &method, &operations);
            let near = near.or_else(|| nearest(path, listed.map(|it| it.path.as_str())));
            meant(near)
        }
    };
    unknown(&method, &uri, &hint)
}

fn unknown(method: &Method, uri: &Uri, hint: &str) -> Failure {
    let path = shortened(uri.path(), SHOWN_BYTES);
    let method = shortened(method.as_str(), MAX_METHOD_BYTES);
    let message = format!("unknown URL `{method} {path}`{hint}");
    Failure::new(Cause::UnknownRoute, message)
}

/// Returns true if a path matches a route, in which a part in braces matches any segment.
fn is_path(route: &str, path: &str) -> bool {
    let (wanted, parts) = (route.split('/'), path.split('/'));
    let is_part = |(wanted, part): (&str, &str)| {
        let is_word = wanted.starts_with('{') && !wanted.starts_with("{*") && !part.is_empty();
        is_word || wanted == part
    };
    wanted.clone().count() == parts.clone().count() && wanted.zip(parts).all(is_part)
}

/// Formats a suggestion for a path.
fn meant(near: Option<&str>) -> String {
    near.map_or(String::new(), |near| {
        format!("; did you mean `{}`?", near.replace("{*", "{"))
    })
}

/// Returns the shortest path with this method that continues this one after a name.
fn below<'a>(path: &str, method: &Method, operations: &'a [Operation]) -> Option<&'a str> {
    let ends_like = |begin: &str| {
        let all = operations.iter();
        let mut tails = all.filter_map(|it| it.path.strip_prefix(begin));
        tails.any(|tail| !tail.is_empty() && path.ends_with(tail))
    };
    let goes_on = |other: &&str| {
        let mut ends = other.match_indices("}/").map(|(at, _)| &other[..=at]);
        ends.any(|begin| {
            // The name can contain slashes.
            let of_kserve = begin == "/v2/models/{name}"
                && path.starts_with("/v2/models/")
                && !ends_like(begin);
            of_kserve || is_path(begin, path)
        })
    };
    let is_of = |it: &&Operation| it.method.eq_ignore_ascii_case(method.as_str());
    let listed = operations.iter().filter(|it| it.listed).filter(is_of);
    let paths = listed.map(|it| it.path.as_str()).filter(goes_on);
    paths.min_by_key(|other| (other.matches('/').count(), other.len()))
}

/// Returns the path that was probably meant. Each differing part must be similar by itself: a name
/// in one path is not a misspelled word of another.
fn nearest<'a>(path: &str, paths: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let is_near = |(part, other): (&str, &str)| {
        part == other || other.starts_with('{') || suggest::nearest(part, [other]).is_some()
    };
    let are_near = |other: &&str| {
        let differs_in_length = path.matches('/').count() != other.matches('/').count();
        *other != path && (differs_in_length || path.split('/').zip(other.split('/')).all(is_near))
    };
    suggest::nearest(path, paths.filter(are_near))
}

/// Refuses a method that a path does not support.
async fn wrong_method(target: Option<Extension<Target>>, method: Method, uri: Uri) -> Response {
    let near = meant(below(uri.path(), &method, &operations(false)));
    let path = shortened(uri.path(), SHOWN_BYTES);
    let method = shortened(method.as_str(), MAX_METHOD_BYTES);
    let message = format!("`{path}` does not support `{method}`{near}");
    let mut response = Failure::new(Cause::WrongMethod, message).into_response();
    if let Some(methods) = kserve::methods(uri.path(), target.is_some()) {
        let allowed = HeaderValue::from_static(methods);
        response.headers_mut().insert(ALLOW, allowed);
    }
    response
}
