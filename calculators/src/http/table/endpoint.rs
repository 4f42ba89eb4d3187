//! Requests to one endpoint, for nodes that serve no other.

use std::sync::Arc;

use graphmill_engine::Result;

use super::super::fields::{Fields, invalid, missing};
use crate::payload::JsonBody;

/// The fields of a request to `endpoint`, and the names of those that nobody knows.
pub(in crate::http) fn of<'a>(
    body: &'a JsonBody,
    endpoint: &str,
) -> Result<(Fields<'a>, Arc<[String]>)> {
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
