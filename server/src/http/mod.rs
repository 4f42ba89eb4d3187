//! REST. A folder for each dialect, each with its own routes and wire format; what they share is here.

mod anthropic;
mod dialect;
pub(crate) mod kserve;
pub(crate) mod openai;
pub(crate) mod ovms;
pub(crate) mod sse;
pub(crate) mod status;

use std::sync::Arc;

use axum::{
    Router,
    http::{Method, Uri},
    routing::get,
};
use graphmill_grammar::suggest;

use crate::{
    app::App,
    observe::metrics,
    rescue::{Cause, Failure},
};

/// All routes, without the layers around them.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(root))
        .route("/v3/status", get(status::status))
        .route("/metrics", get(metrics::scrape))
        .merge(openai::routes())
        .merge(anthropic::routes())
        .merge(ovms::routes())
        .merge(kserve::routes())
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
}

/// Says to a person with a browser what this is.
async fn root() -> String {
    format!(
        "Graphmill {}\n\nGET  /v3/models\nGET  /v3/status\nGET  /metrics\nGET  /v1/config\nPOST /v3/chat/completions\nPOST /v3/completions\nPOST /v3/responses\nPOST /v1/messages\nPOST /v3/tokenize\nPOST /v3/detokenize\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// The paths that a slip of the keys probably meant.
const PATHS: &[&str] = &[
    "/v3/chat/completions",
    "/v1/chat/completions",
    "/v3/completions",
    "/v1/completions",
    "/v3/responses",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v3/tokenize",
    "/v1/tokenize",
    "/v3/detokenize",
    "/v1/detokenize",
    "/v3/apply-template",
    "/v1/apply-template",
    "/v3/models",
    "/v1/models",
    "/v1/config",
    "/v2/health/live",
    "/v2/health/ready",
    "/v3/status",
    "/metrics",
];

/// Nothing is served at the path.
pub(crate) async fn unknown_route(method: Method, uri: Uri) -> Failure {
    let path = uri.path();
    let near = suggest::nearest(path, PATHS.iter().copied())
        .map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    Failure::new(
        Cause::UnknownRoute,
        format!("unknown URL `{method} {path}`{near}"),
    )
}

async fn wrong_method(method: Method, uri: Uri) -> Failure {
    Failure::new(
        Cause::WrongMethod,
        format!("`{}` does not take `{method}`", uri.path()),
    )
}
