//! Warnings about fields that no endpoint knows. A misspelled field has no effect, and clients do
//! not read the header that names it.

use std::{
    collections::HashSet,
    sync::{LazyLock, Mutex, PoisonError},
};

use graphmill_dialects::schema;
use graphmill_grammar::suggest;

/// Maximum number of names in warnings, because clients choose them.
const MOST: usize = 100;

/// Maximum length of a name in warnings, in bytes. No known field is longer.
const MAX_NAME_BYTES: usize = 64;

/// Names that were logged already.
static TOLD: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);

/// Warns of unknown fields in a request for an endpoint. Each name is logged only once, as clients
/// send the same fields again and again.
pub(super) fn warn(names: &[String], endpoint: &str) {
    for name in names {
        let is_plain = |letter: u8| letter.is_ascii_graphic() && letter != b'`';
        if name == "..." || name.len() > MAX_NAME_BYTES || !name.bytes().all(is_plain) {
            continue;
        }
        let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= MOST || !told.insert(name.to_owned()) {
            continue;
        }
        let known = schema::endpoint(endpoint).map(schema::Endpoint::names);
        let near = suggest::nearest(name, known.into_iter().flatten());
        let near = near.map_or(String::new(), |near| {
            format!("; did the client mean `{near}`?")
        });
        tracing::warn!(
            "`{name}` is not a field of `{endpoint}`, so it is ignored in requests{near}"
        );
    }
}
