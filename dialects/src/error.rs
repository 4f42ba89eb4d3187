//! Errors about fields. Each has the path of its field and a code.

use std::fmt::Display;

use graphmill_engine::{Error, Result, shortened};
use serde_json::Value;

/// Codes of errors about a field.
pub mod code {
    /// Code of a value of the wrong type.
    pub const TYPE: &str = "invalid_type";
    /// Code of a value that is not allowed.
    pub const VALUE: &str = "invalid_value";
    /// Code of a missing field.
    pub const MISSING: &str = "missing_required_parameter";
    /// Code of a request for something unsupported.
    pub const UNSUPPORTED: &str = "unsupported_parameter";
}

/// Returns a whole number, also if it is written with a zero fraction: `16.0`, `1e2`.
pub fn whole(value: &Value) -> Option<i128> {
    let written = value.as_i64().map(i128::from);
    let written = written.or_else(|| value.as_u64().map(i128::from));
    written.or_else(|| {
        let number = value.as_f64()?;
        (number.fract() == 0.0).then_some(number as i128)
    })
}

/// Maximum length in bytes of a field's path in an error. Parts of it can come from the request.
const MAX_PATH_BYTES: usize = 120;

/// Maximum length in bytes of a value in an error.
const MAX_SHOWN_BYTES: usize = 60;

/// Maximum length in bytes of a whole message.
const MAX_MESSAGE_BYTES: usize = 400;

/// Makes an error about one field.
pub fn invalid(field: impl Display, message: impl Display) -> Error {
    let field = shortened(&field.to_string(), MAX_PATH_BYTES).into_owned();
    let message = format!("`{field}` {message}");
    Error::invalid(shortened(&message, MAX_MESSAGE_BYTES))
        .with_field(field)
        .with_code(code::VALUE)
}

/// Makes an error about an unsupported value, with a sentence that gives the reason. The value is
/// `None` if it is too long to be read for an error.
pub fn unsupported(field: impl Display, value: Option<&Value>, why: Option<&str>) -> Error {
    let value = value.map_or("this value".to_owned(), |value| {
        format!("the value {}", written(value))
    });
    let why = why.map_or(String::new(), |why| format!(". {why}"));
    let message = format!("is not supported with {value}{why}");
    invalid(field, message).with_code(code::UNSUPPORTED)
}

/// Makes an error about a field's type.
pub fn wrong_type(field: impl Display, expected: &str, found: &Value) -> Error {
    let message = format!("must be {expected}, not {}", kind(found));
    invalid(field, message).with_code(code::TYPE)
}

/// Makes an error about a missing field.
pub fn missing(field: impl Display) -> Error {
    invalid(field, "is missing").with_code(code::MISSING)
}

/// Makes an error about a field that another one excludes.
pub fn conflicting(field: impl Display, other: impl Display) -> Error {
    invalid(field, format!("cannot be used together with `{other}`"))
}

/// Refuses a list with more than `most` elements.
pub fn at_most(field: impl Display, count: usize, most: usize, what: &str) -> Result<()> {
    if count <= most {
        return Ok(());
    }
    Err(invalid(
        field,
        format!("must have at most {most} {what}, not {count}"),
    ))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a number with a fraction",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Shortens a text of the request for an error.
pub fn shown(text: &str) -> impl Display {
    shortened(text, MAX_SHOWN_BYTES)
}

/// Writes a value for an error. Writes no more of it than is shown.
pub fn written(value: &Value) -> String {
    let mut beginning = [0; 2 * MAX_SHOWN_BYTES];
    let mut room = &mut beginning[..];
    // Fails once enough is written.
    let _ = serde_json::to_writer(&mut room, value);
    let left = room.len();
    let written = &beginning[..beginning.len() - left];
    shortened(&String::from_utf8_lossy(written), MAX_SHOWN_BYTES).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_show_the_beginning_of_what_is_long() {
        let long = "é".repeat(1 << 20);
        let value = json!([long]);
        for error in [
            unsupported(long.clone(), Some(&value), Some("Nothing is stored.")),
            invalid("a", format!("must not be {long}")),
            invalid("a", format!("must not be `{}`", shown(&long))),
        ] {
            assert!(error.message.len() < 420, "{}", error.message);
            assert!(error.field.is_some_and(|field| field.len() < 130));
        }
        assert_eq!(written(&json!({"a": 1})), r#"{"a":1}"#);
    }
}
