//! Anthropic's dialect: the routes of `messages`, its form of models, and its error object. What a body may say and how a message looks is decided by
//! the graph's nodes.

pub(super) mod models;

use axum::{
    body::Body as AnswerBody,
    extract::Request,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::Next,
    response::Response,
};
use serde_json::{Value, json};

use super::{
    openai::generate,
    operation::{Answer, Body, Group, Operation},
};
use crate::{
    observe::request_id::Id,
    rescue::{Failure, Retry},
};

pub(super) fn operations() -> Vec<Operation> {
    let body = Body::new("messages", &["model", "messages"]);
    let mut operations = Vec::new();
    for prefix in [SHOWN, "/v3", "/v3/v1"] {
        let messages = Operation::post(format!("{prefix}/messages"), generate::endpoint, body);
        let count = Operation::post(
            format!("{prefix}/messages/count_tokens"),
            generate::endpoint,
            body.of_prompt(),
        );
        operations.push(
            messages
                .about(
                    Group::Generation,
                    "Answers a conversation, as Anthropic's Messages do",
                )
                .answers(Answer::JsonOrEvents(&["id", "type", "role", "content"]))
                .listed(prefix == SHOWN),
        );
        operations.push(
            count
                .about(
                    Group::Prompts,
                    "Counts the tokens of a request for a message",
                )
                .answers(Answer::Json(&["input_tokens"]))
                .listed(prefix == SHOWN),
        );
    }
    operations
}

/// The prefix whose paths the documentation shows.
const SHOWN: &str = "/v1";

/// Whether a request comes from a client of this dialect: all of them say the version that they speak.
pub(super) fn is_asked(headers: &HeaderMap) -> bool {
    headers.contains_key("anthropic-version")
}

/// Whether a request is one of this dialect, served or not. `models` is a path of OpenAI's, too.
fn owns(request: &Request) -> bool {
    let of = |name| {
        ["/v3/v1", "/v3", "/v1"]
            .into_iter()
            .filter_map(|prefix| {
                request
                    .uri()
                    .path()
                    .strip_prefix(prefix)?
                    .strip_prefix(name)
            })
            .any(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    of("/messages") || (of("/models") && is_asked(request.headers()))
}

/// Tells every failure under the dialect's paths in its own form, whoever refused the request: the graph, the router or a layer.
pub(crate) async fn layer(request: Request, next: Next) -> Response {
    if !owns(&request) {
        return next.run(request).await;
    }
    let id = request.extensions().get::<Id>().cloned();
    let response = next.run(request).await;
    let mut response = match response.extensions().get::<Failure>() {
        Some(failure) => {
            let body = error_object(failure, id.as_ref().map(|id| &*id.0)).to_string();
            let (mut parts, _) = response.into_parts();
            parts.headers.remove(header::CONTENT_LENGTH);
            Response::from_parts(parts, AnswerBody::from(body))
        }
        None => response,
    };
    // Its clients look for the id under a name of their own.
    if let Some(id) = id.and_then(|id| HeaderValue::from_str(&id.0).ok()) {
        response.headers_mut().insert("request-id", id);
    }
    response
}

/// `{"type": "error", "error": {"type", "message"}}`.
pub(super) fn error_object(failure: &Failure, id: Option<&str>) -> Value {
    let mut error = json!({ "type": kind(failure), "message": failure.message });
    if let Some(param) = &failure.param {
        error["param"] = json!(param);
    }
    if let Some(code) = failure.code() {
        error["code"] = json!(code);
    }
    let mut object = json!({ "type": "error", "error": error });
    if let Some(id) = id {
        object["request_id"] = json!(id);
    }
    object
}

/// The name of a status in this dialect.
fn kind(failure: &Failure) -> &'static str {
    let row = failure.row();
    match row.status {
        StatusCode::NOT_FOUND => "not_found_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        StatusCode::SERVICE_UNAVAILABLE if row.retry != Retry::Never => "overloaded_error",
        StatusCode::GATEWAY_TIMEOUT | StatusCode::REQUEST_TIMEOUT => "timeout_error",
        status if status.is_client_error() => "invalid_request_error",
        _ => "api_error",
    }
}
