//! Reading the fields of a JSON object with errors that name the field. A `null` counts as not
//! given, as OpenAI has it.

pub(super) use graphmill_dialects::error::{
    at_most, code, invalid, missing, shown, unsupported, whole, written, wrong_kind, wrong_type,
};
use graphmill_dialects::{self as dialects, schema};
use graphmill_engine::{Error, Result};
use serde_json::{Map, Value};

use super::unknown;
use crate::payload::{
    JsonBody,
    json::{Given, unreadable},
};

/// The fields of a body that an endpoint knows, checked.
pub(super) fn check(endpoint: &str, json: &JsonBody) -> Result<dialects::Fields> {
    let endpoint = schema::endpoint(endpoint)
        .ok_or_else(|| Error::internal(format!("`{endpoint}` has no fields")))?;
    dialects::Fields::read(endpoint, json)
}

/// The same. The log warns of the other fields.
pub(super) fn read(endpoint: &str, json: &JsonBody) -> Result<dialects::Fields> {
    let fields = check(endpoint, json)?;
    for name in &fields.unknown {
        unknown::warn(name, endpoint);
    }
    Ok(fields)
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
