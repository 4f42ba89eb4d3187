//! Untrusted JSON: the body of a request, whose fields are parsed on demand, and bounded values.
//!
//! A `serde_json::Value` takes up to a hundred times the memory of its text. So no value is made of
//! a whole body, and all values of one request's fields count against one [`Allowance`].

mod body;
mod value;

pub use body::{JsonBody, MAX_FIELDS};
use serde_json::{Value, json};

pub use value::{Allowance, MAX_DEPTH, MAX_VALUES};

/// Removes the byte order mark with which some programs begin files.
pub fn without_mark(json: &[u8]) -> &[u8] {
    json.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(json)
}

/// Returns the value of a JSON text without its contents, which are not read.
///
/// # Errors
/// If the text is a number that cannot be read.
pub fn outline(text: &[u8]) -> serde_json::Result<Value> {
    match text.first() {
        Some(b'"') => Ok(json!("")),
        Some(b'[') => Ok(json!([])),
        Some(b'{') => Ok(json!({})),
        _ => serde_json::from_slice(text),
    }
}

/// Code of errors about text that is not JSON.
pub const INVALID_JSON: &str = "invalid_json";
