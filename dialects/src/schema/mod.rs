//! Bodies of endpoints: a schema for each field, made of the structs that hold
//! what was read, and of lists of fields that need no reading.
//!
//! Beside the words of JSON Schema, these have a meaning here: `x-words` describes a field to a
//! person, `x-own` leaves reading and checking it to its own reader, `x-shown` is the schema of the
//! values that are accepted whatever the model, `x-beyond` says that no schema describes these,
//! `x-usual` is the `type` of an object that has none, `x-tags` lists the `type`s of objects that are
//! left out.

mod check;
mod words;

use std::sync::LazyLock;

use graphmill_engine::Result;
use indexmap::IndexMap;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

pub use check::{ID, NAME, NOT_BLANK};
pub(crate) use check::{equal, has_type};
pub use words::words;

use crate::bodies;

/// The fields of an endpoint, each with its schema.
#[derive(Debug)]
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
            fields: IndexMap::new(),
            others: IndexMap::new(),
            aliases: Vec::new(),
            akin: None,
        }
    }

    /// Adds the fields of a struct.
    #[must_use]
    pub fn with<T: JsonSchema>(mut self) -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.inline_subschemas = true;
        });
        let mut schema = settings
            .into_generator()
            .into_root_schema_for::<T>()
            .to_value();
        if let Value::Object(fields) = schema["properties"].take() {
            for (name, mut schema) in fields {
                tidy(&mut schema);
                self.fields.insert(name, schema);
            }
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
            schema["description"] = about.into();
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
fn tidy(schema: &mut Value) {
    match schema {
        Value::Array(list) => list.iter_mut().for_each(tidy),
        Value::Object(fields) => {
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
            for (name, inside) in fields.iter_mut() {
                if name != "x-shown" && name != "enum" {
                    tidy(inside);
                }
            }
        }
        _ => {}
    }
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

/// The names of the fields of a struct.
pub fn names<T: JsonSchema>() -> Vec<String> {
    let names = Endpoint::new("").with::<T>().fields.into_keys();
    names.collect()
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

/// Checks the value of a field, and writes whole numbers without a fraction where it is an integer.
pub(crate) fn check(value: &mut Value, schema: &Value, name: &str) -> Result<()> {
    check::check(value, schema, check::Path::Field(name))
}

/// The types of a schema, in words.
pub(crate) fn kinds(schema: &Value) -> String {
    words::kinds(schema)
}

#[cfg(test)]
mod tests;
