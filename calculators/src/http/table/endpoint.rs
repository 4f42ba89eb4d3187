//! Requests to one endpoint, for nodes that serve no other.

use std::sync::Arc;

use graphmill_engine::{Error, Result};

use super::super::{
    body,
    fields::{Fields, invalid, missing, shown},
};
use crate::payload::HttpRequestPayload;

/// The fields of a request to `endpoint`, which is the end of the path, and the names of those that
/// nobody knows.
pub(in crate::http) fn of<'a>(
    payload: &'a HttpRequestPayload,
    endpoint: &str,
) -> Result<(Fields<'a>, Arc<[String]>)> {
    let path = payload.uri.split('?').next().unwrap_or_default();
    if path.rsplit('/').next() != Some(endpoint) {
        let message = format!("this graph serves `{endpoint}`, not `{}`", shown(path));
        return Err(Error::not_found(message).with_code("unknown_endpoint"));
    }
    let body = body::json(payload)?;
    let ignored = super::check(body, endpoint)?;
    Ok((body.into(), ignored.into()))
}

/// The model as the request names it.
pub(in crate::http) fn model(body: Fields<'_>) -> Result<Arc<str>> {
    match body.str("model")? {
        None => Err(missing("model")),
        Some("") => Err(invalid("model", "must not be empty")),
        Some(model) => Ok(Arc::from(model)),
    }
}
