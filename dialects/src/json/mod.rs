//! Untrusted JSON: the body of a request, whose fields are parsed on demand, and bounded values.
//!
//! A `serde_json::Value` takes up to a hundred times the memory of its text. So none is made of a
//! whole body, and what is made of one request's fields draws on one [`Allowance`].

mod body;
mod value;

pub use body::{JsonBody, MAX_FIELDS};
use serde_json::{Value, json};

pub use value::{Allowance, MAX_DEPTH, MAX_VALUES};

/// JSON without the byte order mark that some programs begin their files with.
pub fn without_mark(json: &[u8]) -> &[u8] {
    json.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(json)
}

/// The value of a text that is JSON, without what is inside of it: no value is made of that.
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

/// Code of errors about a text that is no JSON.
pub const INVALID_JSON: &str = "invalid_json";
