//! Failures in the form of the dialect that a request is written in.

use axum::{
    body::Body as AnswerBody,
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, header},
    middleware::Next,
    response::Response,
};
use bytes::BytesMut;
use graphmill_calculators::http::{
    dialect::{self, Dialect},
    dialect_table,
};
use serde_json::Value;

use super::{kserve, sse, torchserve};
use crate::{errors::Failure, observe::request_id::Id};

/// Writes every failure under the paths of a dialect in its form, whether the graph, the router or
/// a layer refused the request.
pub(crate) async fn layer(request: Request, next: Next) -> Response {
    let Some(dialect) = dialect_of(&request) else {
        let error = error_of(request.uri().path());
        let response = next.run(request).await;
        return match (response.extensions().get::<Failure>(), error) {
            (Some(failure), Some(error)) => {
                let body = error(failure).to_string();
                with_body(response, body)
            }
            _ => response,
        };
    };
    let id = request.extensions().get::<Id>().cloned();
    let response = next.run(request).await;
    let mut response = match response.extensions().get::<Failure>() {
        Some(failure) => {
            let id = id.as_ref().map(|id| &*id.text);
            let body = dialect.error(&failure.view(id)).to_string();
            with_body(response, body)
        }
        None => response,
    };
    if let Some(name) = dialect.id_header()
        && let Some(id) = id.and_then(|id| HeaderValue::from_str(&id.text).ok())
    {
        let name = HeaderName::from_static(name);
        response.headers_mut().insert(name, id);
    }
    response
}

/// How a failure is told under the paths of a family of servers that is no dialect.
fn error_of(path: &str) -> Option<fn(&Failure) -> Value> {
    if kserve::owns(path) {
        Some(kserve::error)
    } else if torchserve::owns(path) {
        Some(torchserve::error)
    } else {
        None
    }
}

fn with_body(response: Response, body: String) -> Response {
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, AnswerBody::from(body))
}

/// The dialect of a request. The paths of models belong to several dialects: Anthropic's clients
/// identify themselves.
fn dialect_of(request: &Request) -> Option<&'static dyn Dialect> {
    let path = request.uri().path();
    dialect_table::of_path(path).or_else(|| {
        let is_anthropic =
            is_anthropic(request.headers()) && dialect_table::is_under(path, "models");
        is_anthropic
            .then(|| dialect_table::named("messages"))
            .flatten()
    })
}

/// Whether a request comes from a client of Anthropic's: all of them say the version that they
/// speak.
pub(super) fn is_anthropic(headers: &HeaderMap) -> bool {
    headers.contains_key("anthropic-version")
}

/// Appends the event that says why a stream has no more; `number` counts the named events before
/// it. Streams of no dialect, which nodes of others make, are told in OpenAI's form.
pub(super) fn write_failure(
    dialect: Option<&dyn Dialect>,
    out: &mut BytesMut,
    failure: &Failure,
    number: u64,
) {
    let failure = failure.view(None);
    let (name, data) = match dialect {
        Some(dialect) => dialect.error_event(&failure, number),
        None => (None, dialect::error(&failure)),
    };
    match name {
        Some(name) => sse::write_named_event(out, name, &data.to_string()),
        None => sse::write_event(out, &data.to_string()),
    }
}
