//! Failures in the form of the dialect that a request is written in.

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::Next,
    response::Response,
};
use bytes::BytesMut;
use graphmill_calculators::http::{
    dialect::{self, Dialect, Framing, Target},
    dialect_table,
};
use serde_json::Value;

use super::{frames, graph::routes::Targets, hugging_face, kserve, ollama, torchserve};
use crate::{errors::Failure, telemetry::request_id::Id};

/// Passes the target of a request to its handler, and writes every failure in the form of the
/// dialect, no matter if the graph, the router or a layer caused it.
pub(crate) async fn layer(targets: &Targets, mut request: Request, next: Next) -> Response {
    let target = targets.find(&request);
    if let Some(target) = target {
        request.extensions_mut().insert(target);
    }
    let of_family = error_of(request.uri().path());
    let by_client = || client_dialect(request.headers()).filter(|_| of_family.is_none());
    let dialect = target.map(|target| target.dialect).or_else(by_client);
    let id = request.extensions().get::<Id>().cloned();
    let mut response = next.run(request).await;
    let meant = response.extensions().get::<Target>().copied();
    let dialect = meant.map(|target| target.dialect).or(dialect);
    let id = id.as_ref().map(|id| &*id.text);
    if let Some(failure) = response.extensions().get::<Failure>() {
        let of_dialect = dialect.map(|dialect| dialect.error(&failure.view(id)));
        let error = of_dialect.or_else(|| of_family.map(|error| error(failure)));
        if let Some(error) = error {
            response.headers_mut().remove(header::CONTENT_LENGTH);
            let status = dialect.map(|dialect| dialect.status(response.status().as_u16()));
            if let Some(status) = status.and_then(|status| StatusCode::from_u16(status).ok()) {
                *response.status_mut() = status;
            }
            response = response.map(|_| Body::from(error.to_string()));
        }
    }
    if let Some(name) = dialect.and_then(Dialect::id_header)
        && let Some(id) = id.and_then(|id| HeaderValue::from_str(id).ok())
    {
        let name = HeaderName::from_static(name);
        response.headers_mut().insert(name, id);
    }
    response
}

/// Returns the function that formats failures at a path of a server family without a dialect.
fn error_of(path: &str) -> Option<fn(&Failure) -> Value> {
    if kserve::owns(path) || ollama::owns(path) {
        Some(kserve::error)
    } else if torchserve::owns(path) {
        Some(torchserve::error)
    } else if hugging_face::owns(path) {
        Some(hugging_face::error)
    } else {
        None
    }
}

/// Returns the dialect of a client at paths of no dialect, recognized by one of its headers.
fn client_dialect(headers: &HeaderMap) -> Option<&'static dyn Dialect> {
    dialect_table::all().find(|dialect| {
        let header = dialect.client_header();
        header.is_some_and(|name| headers.contains_key(name))
    })
}

/// Appends the event for the failure that ends a stream. `number` is the number of named events
/// before it. Without a dialect, the event has OpenAI's form.
pub(super) fn write_failure(
    dialect: Option<&dyn Dialect>,
    out: &mut BytesMut,
    failure: &Failure,
    (request, number): (&str, u64),
) {
    let failure = failure.view(Some(request));
    let (name, data) = match dialect {
        Some(dialect) => dialect.error_event(&failure, number),
        None => (None, dialect::error(&failure)),
    };
    let framing = dialect.map_or(Framing::Events, Dialect::framing);
    frames::write(framing, out, name, &data.to_string());
}
