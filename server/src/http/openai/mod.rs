//! OpenAI's dialect. `/v1` and `/v3` are the same; `/v3/v1` is accepted for old clients.
//!
//! A POST anywhere under these prefixes goes to the graph that `model` names, as in OpenVINO Model Server: which paths mean
//! something is the graph's business, not the router's.

mod body;
mod deadline;
mod error;
pub(super) mod generate;
mod models;
mod stream;

use std::sync::Arc;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    routing::{get, post},
};

pub(crate) use error::object as error_object;

use crate::{app::App, http::unknown_route};

/// The longest body that is read, in bytes: room for a prompt that fills any model's context many times over, so that what
/// does not fit is refused with its count of tokens.
pub(crate) const BODY_LIMIT_BYTES: usize = 64 << 20;

pub(crate) fn routes() -> Router<Arc<App>> {
    let mut routes = Router::new();
    for prefix in ["/v1", "/v3", "/v3/v1"] {
        routes = routes
            .route(
                &format!("{prefix}/chat/completions"),
                post(generate::endpoint),
            )
            .route(&format!("{prefix}/completions"), post(generate::endpoint))
            .route(&format!("{prefix}/responses"), post(generate::endpoint))
            .route(
                &format!("{prefix}/responses/input_tokens"),
                post(generate::endpoint),
            )
            .route(
                &format!("{prefix}/chat/completions/render"),
                post(generate::endpoint),
            )
            .route(
                &format!("{prefix}/completions/render"),
                post(generate::endpoint),
            )
            .route(&format!("{prefix}/models"), get(models::list))
            .route(&format!("{prefix}/models/{{*name}}"), get(models::one));
    }
    // Servers of one model have these without a prefix, too.
    for prefix in ["", "/v1", "/v3", "/v3/v1"] {
        for question in ["tokenize", "detokenize", "apply-template"] {
            let path = format!("{prefix}/{question}");
            routes = routes.route(&path, post(generate::about_a_prompt));
        }
    }
    for prefix in ["/v1", "/v3"] {
        routes = routes.route(
            &format!("{prefix}/{{*path}}"),
            post(generate::any_path).fallback(unknown_route),
        );
    }
    routes.layer(DefaultBodyLimit::max(BODY_LIMIT_BYTES))
}
