//! Bodies of endpoints: a schema for each field, made from the structs that hold the values and
//! from lists of fields that need no reading.
//!
//! Schemas have additional keywords: `x-words` describes a field for people; `x-own` leaves the
//! field to its own reader; `x-shown` is the schema of values that are accepted whatever the model;
//! `x-beyond` means that no schema describes these; `x-usual` is the `type` of an object without
//! one; `x-needs` is the switch that a field requires; `x-tags` lists the `type`s of objects that
//! are left out.

mod check;
mod words;

use std::sync::LazyLock;

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::RecursiveTransform};
use serde_json::{Map, Value, json};

pub use check::{ID, NAME, NOT_BLANK};
pub(crate) use check::{check, has_type};
pub(crate) use words::kinds;
pub use words::words;

use crate::bodies;

/// The fields of an endpoint, each with its schema.
#[derive(Clone, Debug, Default)]
pub struct Endpoint {
    /// Name of the endpoint, the end of its path: `chat/completions`.
    pub name: &'static str,
    /// Fields in the order of the documentation.
    pub fields: IndexMap<String, Value>,
    /// Fields shared with another endpoint, which documents them.
    others: IndexMap<String, Value>,
    /// Alternative names of fields, each with the name of the field.
    pub(crate) aliases: Vec<(&'static str, &'static str)>,
    /// Endpoint whose fields are refused instead of ignored.
    pub(crate) akin: Option<&'static str>,
}

/// A field that no struct holds. Its last text is its documentation.
#[derive(Clone, Copy, Debug)]
pub enum Plain {
    /// Another name of a field.
    Alias(&'static str, &'static str, &'static str),
    /// Some allowed values, written in JSON, which ask for the standard behavior. Other values are
    /// not supported.
    Only(&'static str, &'static [&'static str], &'static str),
    /// A value of this type, without effect.
    Idle(&'static str, &'static str, &'static str),
}

impl Endpoint {
    /// Makes an endpoint without fields.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    /// Adds the fields of a struct.
    #[must_use]
    pub fn with<T: JsonSchema>(mut self) -> Self {
        let settings = SchemaSettings::draft2020_12()
            .with(|settings| settings.inline_subschemas = true)
            .with_transform(RecursiveTransform(tidy));
        let schema = settings.into_generator().into_root_schema_for::<T>();
        if let Value::Object(fields) = schema.to_value()["properties"].take() {
            self.fields.extend(fields);
        }
        self
    }

    /// Adds the fields of another endpoint, except those already there and those in `without`. The
    /// fields in `listed` are documented here, too.
    #[must_use]
    pub fn beside(mut self, other: &Self, listed: &[&str], without: &[&str]) -> Self {
        for (name, schema) in other.fields.iter().chain(&other.others) {
            if without.contains(&name.as_str()) {
                continue;
            }
            let list = if listed.contains(&name.as_str()) {
                &mut self.fields
            } else {
                &mut self.others
            };
            list.entry(name.clone()).or_insert_with(|| schema.clone());
        }
        self.aliases.extend(&other.aliases);
        self
    }

    /// Adds fields that no struct holds.
    pub(crate) fn and(mut self, fields: &[Plain]) -> Self {
        for field in fields {
            let (name, mut schema, about) = match *field {
                Plain::Alias(name, of, about) => {
                    self.aliases.push((name, of));
                    (name, self.field(of).cloned().unwrap_or_default(), about)
                }
                Plain::Only(name, values, about) => {
                    let values = values
                        .iter()
                        .filter_map(|value| serde_json::from_str(value).ok());
                    let values: Vec<Value> = values.collect();
                    (name, json!({ "enum": values, "x-only": true }), about)
                }
                Plain::Idle(name, kind, about) => {
                    (name, json!({ "type": kind, "x-idle": true }), about)
                }
            };
            schema["description"] = about.trim().into();
            self.fields.insert(name.to_owned(), schema);
        }
        self
    }

    /// Refuses the fields of another endpoint, unless their values ask for nothing.
    pub(crate) fn akin(self, other: &'static str) -> Self {
        Self {
            akin: Some(other),
            ..self
        }
    }

    /// Returns the schema of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).or_else(|| self.others.get(name))
    }

    /// Iterates over the names of the documented fields.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.keys().map(String::as_str)
    }
}

/// Converts a derived schema to that of a value: without null, which equals a missing field, and
/// with the bounds of its type.
fn tidy(schema: &mut Schema) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    fields.shift_remove("default");
    if let Some(Value::String(format)) = fields.get("format")
        && format != "token"
    {
        if format == "uint32" && !fields.contains_key("maximum") {
            fields.insert("maximum".to_owned(), u32::MAX.into());
        }
        fields.shift_remove("format");
    }
    if let Some(Value::String(about)) = fields.get_mut("description") {
        *about = about.replace('\n', " ");
    }
    without_null(fields);
}

fn without_null(fields: &mut Map<String, Value>) {
    if let Some(Value::Array(kinds)) = fields.get_mut("type")
        && let [kind, Value::String(null)] = &kinds[..]
        && null == "null"
    {
        let kind = kind.clone();
        fields.insert("type".to_owned(), kind);
    }
    if let Some(Value::Array(branches)) = fields.get_mut("anyOf") {
        branches.retain(|branch| branch != &json!({ "type": "null" }));
        if let [Value::Object(only)] = &branches[..] {
            let only = only.clone();
            fields.shift_remove("anyOf");
            for (name, value) in only {
                fields.entry(name).or_insert(value);
            }
        }
    }
}

/// Iterates over all endpoints in the order of the documentation.
pub fn endpoints() -> impl Iterator<Item = &'static Endpoint> {
    static ALL: LazyLock<Vec<Endpoint>> = LazyLock::new(bodies::all);
    ALL.iter()
}

/// Returns the endpoint with this name.
pub fn endpoint(name: &str) -> Option<&'static Endpoint> {
    endpoints().find(|endpoint| endpoint.name == name)
}

/// Returns `true` if a field with this name is a number or boolean, which a form does not show by
/// its notation.
pub fn is_value(name: &str) -> bool {
    let is = |schema: &Value| {
        let can = |value: Value| has_type(&value, schema);
        schema["x-only"] != true && !can("".into()) && (can(0.into()) || can(true.into()))
    };
    endpoints().any(|endpoint| endpoint.fields.get(name).is_some_and(is))
}

#[cfg(test)]
mod tests;
