//! Bodies of endpoints: a schema for each field, made of the structs that hold
//! what was read, and of lists of fields that need no reading.
//!
//! Beside the words of JSON Schema, these have a meaning here: `x-words` describes a field to a
//! person, `x-own` leaves reading and checking it to its own reader, `x-shown` is the schema of the
//! values that are accepted whatever the model, `x-beyond` says that no schema describes these,
//! `x-usual` is the `type` of an object that has none, `x-needs` is the switch without which a field
//! is refused, `x-tags` lists the `type`s of objects that are left out.

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
#[derive(Debug, Default)]
pub struct Endpoint {
    /// The end of its path, which is its name: `chat/completions`.
    pub name: &'static str,
    /// Its fields, in the order of the documentation.
    pub fields: IndexMap<String, Value>,
    /// Fields that it has in common with another endpoint, which documents them.
    others: IndexMap<String, Value>,
    /// Other names of fields, each with the field that it means.
    pub(crate) aliases: Vec<(&'static str, &'static str)>,
    /// An endpoint whose fields are refused rather than ignored.
    pub(crate) akin: Option<&'static str>,
}

/// A field that no struct holds.
#[derive(Clone, Copy, Debug)]
pub enum Plain {
    /// Another name of a field.
    Alias(&'static str, &'static str, &'static str),
    /// One of these values, written in JSON, which ask for what is done anyway; others ask for what
    /// cannot be done.
    Only(&'static str, &'static [&'static str], &'static str),
    /// A value of this type, without effect.
    Idle(&'static str, &'static str, &'static str),
}

impl Endpoint {
    /// An endpoint without fields.
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

    /// Adds the fields of another endpoint but those that are already there and some others. Those
    /// to list are documented here, too.
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

    /// Refuses the fields of another endpoint where they ask for something.
    pub(crate) fn akin(self, other: &'static str) -> Self {
        Self {
            akin: Some(other),
            ..self
        }
    }

    /// The schema of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).or_else(|| self.others.get(name))
    }

    /// The names of its fields.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.keys().map(String::as_str)
    }
}

/// Makes a derived schema that of a value: without null, which is the same as no field, and with the
/// bounds of its type.
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

/// All endpoints, in the order of the documentation.
pub fn endpoints() -> impl Iterator<Item = &'static Endpoint> {
    static ALL: LazyLock<Vec<Endpoint>> = LazyLock::new(bodies::all);
    ALL.iter()
}

/// The endpoint of this name.
pub fn endpoint(name: &str) -> Option<&'static Endpoint> {
    endpoints().find(|endpoint| endpoint.name == name)
}

/// Returns true if a field of this name is a number, or true or false, where that is not told by
/// how it is written: in a form.
pub fn is_value(name: &str) -> bool {
    let is = |schema: &Value| {
        let can = |value: Value| has_type(&value, schema);
        schema["x-only"] != true && !can("".into()) && (can(0.into()) || can(true.into()))
    };
    endpoints().any(|endpoint| endpoint.fields.get(name).is_some_and(is))
}

#[cfg(test)]
mod tests;
