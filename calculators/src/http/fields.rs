//! Errors about fields, and the fields of an endpoint.

pub(super) use graphmill_dialects::error::{
    code, invalid, missing, shown, whole, written, wrong_kind,
};
use graphmill_dialects::{Fields, schema};
use graphmill_engine::{Error, Result};

use super::unknown;
use crate::payload::JsonBody;

/// The fields of a body that an endpoint knows, checked.
pub(super) fn check(endpoint: &str, json: &JsonBody) -> Result<Fields> {
    let endpoint = schema::endpoint(endpoint)
        .ok_or_else(|| Error::internal(format!("`{endpoint}` has no fields")))?;
    Fields::read(endpoint, json)
}

/// The same. The log warns of the other fields.
pub(super) fn read(endpoint: &str, json: &JsonBody) -> Result<Fields> {
    let fields = check(endpoint, json)?;
    unknown::warn(&fields.unknown, endpoint);
    Ok(fields)
}
