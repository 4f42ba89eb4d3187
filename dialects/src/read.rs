//! Reads the fields of a body: checks each against its schema, and hands them to structs.

use graphmill_engine::{Error, Result};
use serde::de::{DeserializeOwned, Deserializer, Visitor, value::MapDeserializer};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};

use crate::{
    error::{code, invalid, unsupported, wrong_kind},
    json::{Given, JsonBody},
    schema::{self, Endpoint},
};

/// Maximum number of names of unknown fields that an answer tells of.
const MAX_UNKNOWN: usize = 32;

/// Longest text that is compared with the values that a field can have only.
const MAX_ONLY_BYTES: usize = 256;

/// The fields of a body that were checked, until structs take them.
#[derive(Debug)]
pub struct Fields {
    endpoint: &'static Endpoint,
    values: Map<String, Value>,
    /// The names of fields that the endpoint does not know, and the paths of what is left out.
    pub unknown: Vec<String>,
}

impl Fields {
    /// Checks every field of a body that the endpoint knows. No value is made of the others, nor of
    /// those that have a reader of their own or no effect.
    ///
    /// # Errors
    /// Names the field that is wrong.
    pub fn read(endpoint: &'static Endpoint, json: &JsonBody) -> Result<Self> {
        let mut fields = Self {
            endpoint,
            values: Map::new(),
            unknown: Vec::new(),
        };
        for name in json.names().filter(|name| json.has(name)) {
            if let Some(given) = json.given(name) {
                fields.add(name, given, || json.get(name).map(Option::<&Value>::cloned))?;
            }
        }
        Ok(fields)
    }

    /// Checks a field that is not beside the others, and adds it to them.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn insert(&mut self, name: &str, value: &Value) -> Result<()> {
        self.add(name, Given::Value(value), || Ok(Some(value.clone())))
    }

    /// Returns true if the endpoint has a field of this name.
    pub fn knows(&self, name: &str) -> bool {
        self.endpoint.field(name).is_some()
    }

    fn add(
        &mut self,
        name: &str,
        given: Given<'_>,
        value: impl FnOnce() -> Result<Option<Value>>,
    ) -> Result<()> {
        let Some(schema) = self.endpoint.field(name) else {
            return self.add_unknown(name, given, value);
        };
        if schema["x-own"] == true {
            return Ok(());
        }
        check_kind(name, schema, given)?;
        if schema["x-idle"] == true && compound(given).is_some() {
            return Ok(());
        }
        let Some(mut value) = value()? else {
            return Ok(());
        };
        if schema["x-only"] == true {
            let mut values = schema["enum"].as_array().into_iter().flatten();
            if !values.any(|only| schema::equal(only, &value)) {
                return Err(unsupported(name, &value));
            }
            return Ok(());
        }
        schema::check(&mut value, schema, name)?;
        if schema["x-idle"] == true {
            return Ok(());
        }
        match self.endpoint.aliases.iter().find(|it| it.0 == name) {
            Some((_, name)) => _ = self.values.entry(*name).or_insert(value),
            None => _ = self.values.insert(name.to_owned(), value),
        }
        Ok(())
    }

    fn add_unknown(
        &mut self,
        name: &str,
        given: Given<'_>,
        value: impl FnOnce() -> Result<Option<Value>>,
    ) -> Result<()> {
        let akin = self.endpoint.akin.and_then(schema::endpoint);
        if let Some(akin) = akin.filter(|akin| akin.fields.contains_key(name)) {
            if asks_for_nothing(given, value)? {
                return Ok(());
            }
            let message = format!("is a field of `{}`", akin.name);
            return Err(invalid(name, message).with_code(code::UNSUPPORTED));
        }
        self.ignore(name);
        Ok(())
    }

    /// Notes that the field or the part of one at this path is left out.
    pub fn ignore(&mut self, path: impl Into<String>) {
        match self.unknown.len() {
            ..MAX_UNKNOWN => self.unknown.push(path.into()),
            MAX_UNKNOWN => self.unknown.push("...".to_owned()),
            _ => {}
        }
    }

    /// Returns true if the body has the field, and no struct has taken it.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Sets fields that the body leaves open.
    pub fn fill(&mut self, defaults: Map<String, Value>) {
        for (name, value) in defaults {
            if !value.is_null() {
                self.values.entry(name).or_insert(value);
            }
        }
    }

    /// The fields of a struct, which no later one sees.
    ///
    /// # Errors
    /// A value that the schema allows and the struct does not.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<T> {
        T::deserialize(Taken(&mut self.values)).map_err(|error| Error::invalid(error.to_string()))
    }

    /// The fields with these names, for a struct that has structs inside whose fields are beside its
    /// own.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn take_named<T: DeserializeOwned>(&mut self, names: &[String]) -> Result<T> {
        let taken = names
            .iter()
            .filter_map(|name| self.values.shift_remove_entry(name));
        let taken = Value::Object(taken.collect());
        T::deserialize(taken).map_err(|error| Error::invalid(error.to_string()))
    }
}

/// Takes those fields out of a map that a struct asks for.
struct Taken<'a>(&'a mut Map<String, Value>);

impl<'de> Deserializer<'de> for Taken<'_> {
    type Error = serde_json::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> std::result::Result<V::Value, Self::Error> {
        let taken = names
            .iter()
            .filter_map(|name| self.0.shift_remove_entry(*name));
        visitor.visit_map(MapDeserializer::new(taken))
    }

    fn deserialize_any<V: Visitor<'de>>(
        self,
        visitor: V,
    ) -> std::result::Result<V::Value, Self::Error> {
        std::mem::take(self.0).deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Checks the type of a field as far as its text tells it: no value is made of one that is wrong.
fn check_kind(name: &str, schema: &Value, given: Given<'_>) -> Result<()> {
    if schema["x-only"] == true {
        if matches!(given, Given::Text(text) if text.len() > MAX_ONLY_BYTES) {
            let message = "is not supported with a value of this length";
            return Err(invalid(name, message).with_code(code::UNSUPPORTED));
        }
        return Ok(());
    }
    match compound(given) {
        Some((kind, empty)) if !schema::has_type(&empty, schema) => {
            Err(wrong_kind(name, &schema::kinds(schema), kind))
        }
        _ => Ok(()),
    }
}

/// Type of a value that may be long, and the shortest value of that type.
fn compound(given: Given<'_>) -> Option<(&'static str, Value)> {
    match given {
        Given::Text([b'"', ..]) | Given::Value(Value::String(_)) => {
            Some(("a string", Value::String(String::new())))
        }
        Given::Text([b'[', ..]) | Given::Value(Value::Array(_)) => {
            Some(("an array", Value::Array(Vec::new())))
        }
        Given::Text([b'{', ..]) | Given::Value(Value::Object(_)) => {
            Some(("an object", Value::Object(Map::new())))
        }
        _ => None,
    }
}

/// Returns true if a field's value, whatever the field, leaves everything as it is without the
/// field.
fn asks_for_nothing(
    given: Given<'_>,
    value: impl FnOnce() -> Result<Option<Value>>,
) -> Result<bool> {
    // Of what has something inside, no value is made to find that out.
    if matches!(given, Given::Text(text) if text.len() > MAX_ONLY_BYTES) {
        return Ok(false);
    }
    Ok(match value()? {
        None | Some(Value::Null) => true,
        Some(Value::Bool(value)) => !value,
        Some(Value::Number(number)) => number.as_f64() == Some(0.0),
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::Object(fields)) => fields.is_empty(),
    })
}
