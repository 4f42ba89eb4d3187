//! The bodies of requests and answers of one endpoint, for nodes that serve no other.

use std::sync::Arc;

use graphmill_engine::{Error, Result};
use serde::Serialize;
use serde_json::Value;

use super::fields::{Fields, missing};
use crate::payload::{HttpRequestPayload, HttpResponse};

/// The fields of a request to `endpoint`, which is the end of the path.
pub(super) fn of<'a>(payload: &'a HttpRequestPayload, endpoint: &str) -> Result<Fields<'a>> {
    let path = payload.uri.split('?').next().unwrap_or_default();
    if path.rsplit('/').next() != Some(endpoint) {
        let message = format!("this graph serves `{endpoint}`, not `{path}`");
        return Err(Error::not_found(message).with_code("unknown_endpoint"));
    }
    match payload.json.as_deref() {
        Some(Value::Object(body)) => Ok(Fields(body)),
        Some(_) => Err(Error::invalid("the body must be a JSON object")),
        None => Err(Error::invalid(
            "the body must be JSON, sent with `content-type: application/json`",
        )),
    }
}

/// The model as the request names it.
pub(super) fn model(body: Fields<'_>) -> Result<Arc<str>> {
    body.str("model")?
        .map(Arc::from)
        .ok_or_else(|| missing("model"))
}

/// An answer in one piece.
pub(super) fn answer(value: &impl Serialize) -> Result<HttpResponse> {
    let bytes = serde_json::to_vec(value).map_err(|error| {
        Error::internal("the answer cannot be written as JSON").with_source(error)
    })?;
    Ok(HttpResponse::Body {
        content_type: "application/json",
        bytes: bytes.into(),
    })
}
