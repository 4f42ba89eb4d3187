//! Errors about fields, and the known fields of an endpoint.

pub(super) use graphmill_dialects::error::{
    code, conflicting, invalid, missing, shown, whole, written,
};
use graphmill_dialects::{Fields, schema};
use graphmill_engine::{Error, Result};

use super::unknown;
use crate::payload::JsonBody;

/// Reads the fields of a body that an endpoint knows, and logs a warning about the others.
pub(super) fn read(endpoint: &str, json: &JsonBody) -> Result<Fields> {
    let endpoint = schema::endpoint(endpoint)
        .ok_or_else(|| Error::internal(format!("`{endpoint}` has no fields")))?;
    let fields = Fields::read(endpoint, json)?;
    unknown::warn(&fields.unknown, endpoint.name);
    Ok(fields)
}
