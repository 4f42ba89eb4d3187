//! Errors about fields, and the known fields of an endpoint.

use std::{
    collections::HashSet,
    sync::{LazyLock, Mutex, PoisonError},
};

pub(super) use graphmill_dialects::error::{
    code, conflicting, invalid, missing, shown, whole, written,
};
use graphmill_dialects::{
    Fields,
    schema::{self, Endpoint},
};
use graphmill_engine::{Error, Result};
use graphmill_grammar::suggest;

use crate::payload::JsonBody;

/// Returns a number of tokens; `None` for -1, which is no limit.
pub(super) fn limited(tokens: Option<i64>) -> Option<u32> {
    tokens.and_then(|tokens| tokens.try_into().ok())
}

/// Reads the fields of a body that an endpoint knows, and logs a warning about the others.
pub(super) fn read(endpoint: &str, json: &JsonBody) -> Result<Fields> {
    read_of(schema::endpoint(endpoint), endpoint, json)
}

/// Reads fields as [`read`] does, for an endpoint that may be of another crate.
pub(super) fn read_of(
    endpoint: Option<&'static Endpoint>,
    name: &str,
    json: &JsonBody,
) -> Result<Fields> {
    let endpoint = endpoint.ok_or_else(|| Error::internal(format!("`{name}` has no fields")))?;
    let fields = Fields::read(endpoint, json)?;
    warn_of_unknown(&fields.unknown, endpoint);
    Ok(fields)
}

/// Maximum number of names in warnings, because clients choose them.
const MOST: usize = 100;

/// Maximum length of a name in warnings, in bytes. No known field is longer.
const MAX_NAME_BYTES: usize = 64;

/// Names that were logged already.
static TOLD: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);

/// Warns of unknown fields in a request for an endpoint: a misspelled field has no effect, and
/// clients do not read the header that names it. Each name is logged only once, as clients send the
/// same fields again and again.
fn warn_of_unknown(names: &[String], endpoint: &Endpoint) {
    for name in names {
        let is_plain = |letter: u8| letter.is_ascii_graphic() && letter != b'`';
        if name == "..." || name.len() > MAX_NAME_BYTES || !name.bytes().all(is_plain) {
            continue;
        }
        let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= MOST || !told.insert(name.to_owned()) {
            continue;
        }
        let near = suggest::nearest(name, endpoint.names());
        let near = near.map_or(String::new(), |near| {
            format!("; did the client mean `{near}`?")
        });
        tracing::warn!(
            "`{name}` is not a field of `{}`, so it is ignored in requests{near}",
            endpoint.name
        );
    }
}
