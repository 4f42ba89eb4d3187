//! Errors about fields, and the known fields of an endpoint.

pub(super) use graphmill_dialects::error::{
    code, conflicting, invalid, missing, shown, whole, written,
};
use graphmill_dialects::{Fields, schema};
use graphmill_engine::{Error, Result};

use super::unknown;
use crate::payload::JsonBody;

/// Returns a number of tokens; `None` for -1, which is no limit.
pub(super) fn limited(tokens: Option<i64>) -> Option<u32> {
    tokens.and_then(|tokens| tokens.try_into().ok())
}

/// Reads the fields of a body that an endpoint knows, and logs a warning about the others.
pub(super) fn read(endpoint: &str, json: &JsonBody) -> Result<Fields> {
    let endpoint = schema::endpoint(endpoint)
        .ok_or_else(|| Error::internal(format!("`{endpoint}` has no fields")))?;
    let fields = Fields::read(endpoint, json)?;
    unknown::warn(&fields.unknown, endpoint.name);
    Ok(fields)
}
