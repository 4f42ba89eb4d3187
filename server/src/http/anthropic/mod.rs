//! Anthropic's dialect: the routes of `messages`, and its error object. What a body may say and how a message looks is decided by
//! the graph's nodes.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Request, State},
    http::{HeaderValue, StatusCode},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};

use super::{
    openai::generate,
    operation::{Answer, Body, Group, Operation},
};
use crate::{
    app::App,
    observe::request_id::Id,
    rescue::{Failure, Retry},
};

pub(super) fn operations() -> Vec<Operation> {
    let body = |required| Body {
        endpoint: "messages",
        required,
    };
    let mut operations = Vec::new();
    for prefix in [SHOWN, "/v3", "/v3/v1"] {
        let messages = Operation::post(
            format!("{prefix}/messages"),
            endpoint,
            body(&["model", "messages", "max_tokens"]),
        );
        let count = Operation::post(
            format!("{prefix}/messages/count_tokens"),
            endpoint,
            body(&["model", "messages"]),
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

async fn endpoint(state: State<Arc<App>>, request: Request) -> Response {
    let id = request.extensions().get::<Id>().cloned();
    let mut response = match generate::endpoint(state, request).await {
        Ok(response) => response,
        Err(failure) => refusal(failure, id.as_ref()),
    };
    // Its clients look for the id under a name of their own.
    if let Some(id) = id.and_then(|id| HeaderValue::from_str(&id.0).ok()) {
        response.headers_mut().insert("request-id", id);
    }
    response
}

/// A failure as an answer: the status and the headers of the table, the body of the dialect.
fn refusal(failure: Failure, id: Option<&Id>) -> Response {
    let body = error_object(&failure, id.map(|id| &*id.0));
    let (parts, _) = failure.into_response().into_parts();
    let mut response = Json(body).into_response();
    *response.status_mut() = parts.status;
    for name in ["retry-after", "x-should-retry"] {
        if let Some(value) = parts.headers.get(name) {
            response.headers_mut().insert(name, value.clone());
        }
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
        StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        StatusCode::SERVICE_UNAVAILABLE if row.retry != Retry::Never => "overloaded_error",
        StatusCode::GATEWAY_TIMEOUT => "timeout_error",
        status if status.is_client_error() => "invalid_request_error",
        _ => "api_error",
    }
}
