//! The bodies of requests and answers of one endpoint, for nodes that serve no other.

use std::sync::Arc;

use graphmill_engine::{Error, Result};
use serde::Serialize;

use super::fields::{Fields, invalid, missing, shown};
use super::{response, table};
use crate::payload::{HttpRequestPayload, HttpResponse, JsonBody};

/// The fields of a request to `endpoint`, which is the end of the path, and the names of those that nobody knows.
pub(super) fn of<'a>(
    payload: &'a HttpRequestPayload,
    endpoint: &str,
) -> Result<(Fields<'a>, Arc<[String]>)> {
    let path = payload.uri.split('?').next().unwrap_or_default();
    if path.rsplit('/').next() != Some(endpoint) {
        let message = format!("this graph serves `{endpoint}`, not `{}`", shown(path));
        return Err(Error::not_found(message).with_code("unknown_endpoint"));
    }
    let body = json(payload)?;
    let ignored = table::check(body, endpoint)?;
    Ok((body.into(), ignored.into()))
}

/// The fields of a body.
pub(super) fn json(payload: &HttpRequestPayload) -> Result<&JsonBody> {
    payload.json.as_deref().ok_or_else(|| {
        Error::invalid("the body must be a JSON object, sent with `content-type: application/json`")
    })
}

/// The model as the request names it.
pub(super) fn model(body: Fields<'_>) -> Result<Arc<str>> {
    match body.str("model")? {
        None => Err(missing("model")),
        Some("") => Err(invalid("model", "must not be empty")),
        Some(model) => Ok(Arc::from(model)),
    }
}

/// An answer in one piece, behind the header that names the request's fields that nobody knows, if there are any.
pub(super) fn answer(value: &impl Serialize, ignored: &[String]) -> Result<Vec<HttpResponse>> {
    let bytes = serde_json::to_vec(value).map_err(|error| {
        Error::internal("the answer cannot be written as JSON").with_source(error)
    })?;
    let body = HttpResponse::Body {
        content_type: "application/json",
        bytes: bytes.into(),
    };
    let header = response::ignored_fields(ignored);
    Ok(header.into_iter().chain([body]).collect())
}
