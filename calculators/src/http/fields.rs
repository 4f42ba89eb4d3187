//! Reading the fields of a JSON object with errors that name the field. A `null` counts as not given, as OpenAI has it.

use graphmill_engine::{Error, Result};
use serde_json::{Map, Value};

/// What errors about a field have as their code.
pub(super) mod code {
    /// A value of another type.
    pub(in crate::http) const TYPE: &str = "invalid_type";
    /// A value that is none of those that are taken.
    pub(in crate::http) const VALUE: &str = "invalid_value";
    /// A field that has to be there.
    pub(in crate::http) const MISSING: &str = "missing_required_parameter";
    /// What cannot be done.
    pub(in crate::http) const UNSUPPORTED: &str = "unsupported_parameter";
}

/// A JSON object whose fields are read one by one.
#[derive(Copy, Clone)]
pub(super) struct Fields<'a>(pub(super) &'a Map<String, Value>);

impl<'a> Fields<'a> {
    /// The field, unless it is missing or `null`.
    pub(super) fn get(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
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
        self.typed(name, "an integer", Value::as_i64)
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

    /// Refuses a field that asks for something this graph does not do. `harmless` are the values that ask for nothing.
    pub(super) fn unsupported(
        self,
        name: &'static str,
        harmless: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        match self.get(name) {
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
        match self.get(name) {
            None => Ok(None),
            Some(value) => read(value)
                .map(Some)
                .ok_or_else(|| wrong_type(name, expected, value)),
        }
    }
}

/// An error about one field.
pub(super) fn invalid(field: impl Into<String>, message: impl std::fmt::Display) -> Error {
    let field = field.into();
    Error::invalid(format!("`{field}` {message}"))
        .with_field(field)
        .with_code(code::VALUE)
}

/// An error about a field that asks for what cannot be done.
pub(super) fn unsupported(field: impl Into<String>, value: &Value) -> Error {
    let value = shortened(value);
    invalid(field, format!("is not supported with the value {value}")).with_code(code::UNSUPPORTED)
}

/// An error about a field's type.
pub(super) fn wrong_type(field: impl Into<String>, expected: &str, found: &Value) -> Error {
    invalid(field, format!("must be {expected}, not {}", kind(found))).with_code(code::TYPE)
}

/// An error about a field that is not there.
pub(super) fn missing(field: impl Into<String>) -> Error {
    invalid(field, "is missing").with_code(code::MISSING)
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

fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
