//! Reading of a body's fields: checks each against its schema and passes them to structs.

use graphmill_engine::{Error, Result};
use serde::de::{DeserializeOwned, Deserializer, Visitor, value::MapDeserializer};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};

use crate::{
    error::{code, invalid, unsupported, wrong_type},
    json::{JsonBody, outline},
    schema::{self, Endpoint},
};

/// Maximum number of names of unknown fields in an answer.
const MAX_UNKNOWN: usize = 32;

/// Maximum size in bytes of a text that is compared with the only allowed values of a field.
const MAX_ONLY_BYTES: usize = 256;

/// The checked fields of a body, until structs take them.
#[derive(Debug)]
pub struct Fields {
    endpoint: &'static Endpoint,
    values: Map<String, Value>,
    /// Names of fields unknown to the endpoint, and paths of parts that are left out.
    pub unknown: Vec<String>,
}

impl Fields {
    /// Checks every field of a body that the endpoint knows. No values are made of unknown fields,
    /// of fields with their own reader, and of fields without effect.
    ///
    /// # Errors
    /// Names the field that is wrong.
    pub fn read(endpoint: &'static Endpoint, json: &JsonBody) -> Result<Self> {
        let mut fields = Self {
            endpoint,
            values: Map::new(),
            unknown: Vec::new(),
        };
        for name in json.names() {
            if let Some(text) = json.text(name)
                && fields.needs_value(name, text)?
                && let Some(value) = json.get(name)?
            {
                fields.insert(name, value)?;
            }
        }
        Ok(fields)
    }

    /// Checks a field by its text as far as possible, so that wrong fields need no value. Returns
    /// `true` if the value must be checked, too.
    fn needs_value(&mut self, name: &str, text: &[u8]) -> Result<bool> {
        let is_long = text.len() > MAX_ONLY_BYTES;
        let Some(schema) = self.endpoint.field(name) else {
            return match self.akin(name) {
                Some(akin) if is_long => Err(akin),
                Some(_) => Ok(true),
                None => {
                    self.ignore(name);
                    Ok(false)
                }
            };
        };
        if schema["x-own"] == true {
            return Ok(false);
        }
        if schema["x-only"] == true {
            let why = schema["description"].as_str();
            return if is_long {
                Err(unsupported(name, None, why))
            } else {
                Ok(true)
            };
        }
        match outline(text) {
            Ok(outline @ (Value::String(_) | Value::Array(_) | Value::Object(_))) => {
                if !schema::has_type(&outline, schema) {
                    return Err(wrong_type(name, &schema::kinds(schema), &outline));
                }
                Ok(schema["x-idle"] != true)
            }
            _ => Ok(true),
        }
    }

    /// Checks the value of a field and adds it to the others.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn insert(&mut self, name: &str, value: &Value) -> Result<()> {
        self.insert_from(name, name, value)
    }

    /// Checks and adds a field that is elsewhere in the body, at this path.
    ///
    /// # Errors
    /// Those of [`read`](Self::read), with the path.
    pub fn insert_from(&mut self, path: &str, name: &str, value: &Value) -> Result<()> {
        let Some(schema) = self.endpoint.field(name) else {
            match self.akin(name) {
                Some(akin) if !asks_for_nothing(value) => return Err(akin),
                Some(_) => {}
                None => self.ignore(name),
            }
            return Ok(());
        };
        let mut value = value.clone();
        schema::check(&mut value, schema, &path)?;
        if schema["x-only"] == true || schema["x-idle"] == true {
            return Ok(());
        }
        match self.endpoint.aliases.iter().find(|it| it.0 == name) {
            Some((_, name)) => _ = self.values.entry(*name).or_insert(value),
            None => _ = self.values.insert(name.to_owned(), value),
        }
        Ok(())
    }

    /// Returns `true` if the endpoint has a field with this name.
    pub fn knows(&self, name: &str) -> bool {
        self.endpoint.field(name).is_some()
    }

    /// Returns the refusal of a field that this endpoint lacks but a similar endpoint has.
    fn akin(&self, name: &str) -> Option<Error> {
        let akin = self.endpoint.akin.and_then(schema::endpoint)?;
        akin.fields.contains_key(name).then(|| {
            let message = format!("is a field of `{}`", akin.name);
            invalid(name, message).with_code(code::UNSUPPORTED)
        })
    }

    /// Records that the field or part at this path is left out.
    pub fn ignore(&mut self, path: impl Into<String>) {
        match self.unknown.len() {
            ..MAX_UNKNOWN => self.unknown.push(path.into()),
            MAX_UNKNOWN => self.unknown.push("...".to_owned()),
            _ => {}
        }
    }

    /// Returns `true` if the body has the field and no struct has taken it.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Sets fields that the body does not have.
    pub fn fill(&mut self, defaults: Map<String, Value>) {
        for (name, value) in defaults {
            self.values.entry(name).or_insert(value);
        }
    }

    /// Takes the fields of a struct, so that later structs do not see them. A struct with flattened
    /// structs inside takes all remaining fields.
    ///
    /// # Errors
    /// A value that the schema allows and the struct does not.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<T> {
        T::deserialize(Remaining(&mut self.values))
            .map_err(|error| Error::invalid(error.to_string()))
    }
}

/// Takes the fields that a struct asks for from a map.
struct Remaining<'a>(&'a mut Map<String, Value>);

impl<'de> Deserializer<'de> for Remaining<'_> {
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

/// Returns `true` if a value of any field is equivalent to leaving out the field.
pub fn asks_for_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}
