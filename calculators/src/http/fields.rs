//! Reading the fields of a JSON object with errors that name the field. A `null` counts as not
//! given, as OpenAI has it.

use std::{
    fmt::Display,
    io::{self, Write},
    sync::Arc,
};

use graphmill_engine::{Error, Result, shortened};
use serde_json::{Map, Value};

use crate::payload::{
    JsonBody,
    json::{Allowance, Given, unreadable},
};

/// What errors about a field have as their code.
pub(super) mod code {
    /// A value of another type.
    pub(in crate::http) const TYPE: &str = "invalid_type";
    /// A value that is not allowed.
    pub(in crate::http) const VALUE: &str = "invalid_value";
    /// A field that has to be there.
    pub(in crate::http) const MISSING: &str = "missing_required_parameter";
    /// What cannot be done.
    pub(in crate::http) const UNSUPPORTED: &str = "unsupported_parameter";
}

/// A JSON object whose fields are read one by one: a body, whose fields become values when they are
/// asked for, or an object inside of it.
#[derive(Copy, Clone)]
pub(super) enum Fields<'a> {
    Body(&'a JsonBody),
    Object(&'a Map<String, Value>),
}

impl<'a> From<&'a JsonBody> for Fields<'a> {
    fn from(body: &'a JsonBody) -> Self {
        Self::Body(body)
    }
}

impl<'a> From<&'a Map<String, Value>> for Fields<'a> {
    fn from(object: &'a Map<String, Value>) -> Self {
        Self::Object(object)
    }
}

impl<'a> Fields<'a> {
    /// The field, unless it is missing or `null`.
    pub(super) fn get(self, name: &str) -> Result<Option<&'a Value>> {
        match self {
            Self::Body(body) => body.get(name),
            Self::Object(object) => Ok(object.get(name).filter(|value| !value.is_null())),
        }
    }

    /// Whether the field is there and not `null`: does not make a value of it.
    pub(super) fn has(self, name: &str) -> bool {
        match self {
            Self::Body(body) => body.has(name),
            Self::Object(object) => object.get(name).is_some_and(|value| !value.is_null()),
        }
    }

    /// The field as it was sent, unless it is missing or `null`: for readers that make no value of
    /// it.
    pub(super) fn given(self, name: &str) -> Option<Given<'a>> {
        match self {
            Self::Body(body) => body.given(name).filter(|_| body.has(name)),
            Self::Object(_) => self.get(name).ok().flatten().map(Given::Value),
        }
    }

    /// The error of a field whose text could not be read.
    pub(super) fn unreadable(self, name: &str, error: &serde_json::Error) -> Error {
        match self {
            Self::Body(body) => body.unreadable(name, error),
            Self::Object(_) => unreadable(&[], name, error),
        }
    }

    /// What may still be made of the text of the request: for JSON that is inside of a string.
    pub(super) fn allowance(self) -> Arc<Allowance> {
        match self {
            Self::Body(body) => body.allowance(),
            // Only bodies have strings of JSON.
            Self::Object(_) => Arc::default(),
        }
    }

    pub(super) fn bool(self, name: &'static str) -> Result<Option<bool>> {
        self.typed(name, "a boolean", Value::as_bool)
    }

    pub(super) fn object(self, name: &'static str) -> Result<Option<&'a Map<String, Value>>> {
        self.typed(name, "an object", Value::as_object)
    }

    pub(super) fn array(self, name: &'static str) -> Result<Option<&'a Vec<Value>>> {
        self.typed(name, "an array", Value::as_array)
    }

    pub(super) fn str(self, name: &'static str) -> Result<Option<&'a str>> {
        self.typed(name, "a string", Value::as_str)
    }

    /// A number, whose range the table of fields has.
    pub(super) fn number(self, name: &'static str) -> Result<Option<f32>> {
        let number = self.typed(name, "a number", Value::as_f64)?;
        Ok(number.map(|number| number as f32))
    }

    /// An integer, whose range the table of fields has.
    pub(super) fn integer(self, name: &'static str) -> Result<Option<i64>> {
        self.typed(name, "an integer", whole)
    }

    /// A count: an integer from `least` to the largest that 32 bits hold.
    pub(super) fn count(self, name: &'static str, least: u32) -> Result<Option<u32>> {
        let Some(count) = self.integer(name)? else {
            return Ok(None);
        };
        match u32::try_from(count) {
            Ok(count) if count >= least => Ok(Some(count)),
            _ => {
                let message = format!("must be between {least} and {}, not {count}", u32::MAX);
                Err(invalid(name, message))
            }
        }
    }

    /// Refuses a field that asks for something this graph does not do. `harmless` are the values
    /// that ask for nothing.
    pub(super) fn unsupported(
        self,
        name: &'static str,
        harmless: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        match self.get(name)? {
            Some(value) if !harmless(value) => Err(unsupported(name, value)),
            _ => Ok(()),
        }
    }

    fn typed<T>(
        self,
        name: &'static str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        match self.get(name)? {
            None => Ok(None),
            Some(value) => read(value)
                .map(Some)
                .ok_or_else(|| wrong_type(name, expected, value)),
        }
    }
}

/// A whole number, also one that is written with a fraction of nothing: `16.0`, `1e2`.
pub(super) fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        // Larger ones are no whole numbers of 64 bits.
        const BEYOND: f64 = 9_223_372_036_854_775_808.0;
        let number = value.as_f64()?;
        let is_whole = number.fract() == 0.0 && (-BEYOND..BEYOND).contains(&number);
        is_whole.then_some(number as i64)
    })
}

/// How much of a field's path an error shows: some of it can be the request's own words.
const MAX_PATH_BYTES: usize = 120;

/// How much of a value an error shows.
const MAX_SHOWN_BYTES: usize = 60;

/// Most of a message, whatever went into it.
const MAX_MESSAGE_BYTES: usize = 400;

/// An error about one field.
pub(super) fn invalid(field: impl Into<String>, message: impl Display) -> Error {
    let field: String = field.into();
    let field = shortened(&field, MAX_PATH_BYTES).into_owned();
    let message = format!("`{field}` {message}");
    Error::invalid(shortened(&message, MAX_MESSAGE_BYTES))
        .with_field(field)
        .with_code(code::VALUE)
}

/// An error about a field that asks for what cannot be done.
pub(super) fn unsupported(field: impl Into<String>, value: &Value) -> Error {
    let value = written(value);
    invalid(field, format!("is not supported with the value {value}")).with_code(code::UNSUPPORTED)
}

/// An error about a field's type.
pub(super) fn wrong_type(field: impl Into<String>, expected: &str, found: &Value) -> Error {
    wrong_kind(field, expected, kind(found))
}

/// An error about a field's type, which has a name.
pub(super) fn wrong_kind(field: impl Into<String>, expected: &str, found: &str) -> Error {
    invalid(field, format!("must be {expected}, not {found}")).with_code(code::TYPE)
}

/// An error about a field that is not there.
pub(super) fn missing(field: impl Into<String>) -> Error {
    invalid(field, "is missing").with_code(code::MISSING)
}

/// Refuses a list that is longer than it may be.
pub(super) fn at_most(
    field: impl Into<String>,
    count: usize,
    most: usize,
    what: &str,
) -> Result<()> {
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

/// A text of the request, as errors show it.
pub(super) fn shown(text: &str) -> impl Display {
    shortened(text, MAX_SHOWN_BYTES)
}

/// A value as errors show it. No more of it is written than is shown.
pub(super) fn written(value: &Value) -> String {
    let mut beginning = Beginning(Vec::new());
    // Fails when enough is written.
    let _ = serde_json::to_writer(&mut beginning, value);
    shortened(&String::from_utf8_lossy(&beginning.0), MAX_SHOWN_BYTES).into_owned()
}

/// Takes a little more than what is shown.
struct Beginning(Vec<u8>);

impl Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = 2 * MAX_SHOWN_BYTES - self.0.len();
        if room == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let taken = bytes.len().min(room);
        self.0.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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
            unsupported(long.clone(), &value),
            invalid("a", format!("must not be {long}")),
            invalid("a", format!("must not be `{}`", shown(&long))),
        ] {
            assert!(error.message.len() < 420, "{}", error.message);
            assert!(error.field.is_some_and(|field| field.len() < 130));
        }
        assert_eq!(written(&json!({"a": 1})), r#"{"a":1}"#);
    }
}
