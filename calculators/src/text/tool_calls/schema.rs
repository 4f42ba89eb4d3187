//! Schemas of arguments that are not written as JSON, divided into alternatives.

use serde_json::{Map, Value, json};

use super::scan::is_json;

/// Maximum number of alternatives of a schema, and of schemas that are visited to find them.
const MOST_ALTERNATIVES: usize = 64;
const MOST_STEPS: usize = 500;
/// Keywords that compose schemas, and those with definitions, which have no effect by themselves.
const COMPOSING: [&str; 6] = ["$ref", "allOf", "anyOf", "oneOf", "$defs", "definitions"];

pub(super) type Keywords = Map<String, Value>;

/// Returns the alternatives of a schema: schemas without references, `allOf`, `anyOf` and `oneOf`,
/// one of which describes each value. Empty if there are too many.
pub(super) fn alternatives(schema: &Value, root: &Value) -> Vec<Keywords> {
    expanded(schema, root, &mut { MOST_STEPS })
}

/// Returns true if a schema describes no value.
pub(super) fn is_never(schema: &Value, root: &Value) -> bool {
    let mut steps = MOST_STEPS;
    expanded(schema, root, &mut steps).is_empty() && steps > 0
}

fn expanded(schema: &Value, root: &Value, steps: &mut usize) -> Vec<Keywords> {
    let keywords = match schema {
        Value::Object(keywords) if *steps > 0 => keywords,
        Value::Object(_) | Value::Bool(false) => return Vec::new(),
        _ => return vec![Keywords::new()],
    };
    *steps -= 1;
    if keywords
        .get("not")
        .is_some_and(|not| *not == true || *not == json!({}))
    {
        return Vec::new();
    }
    let mut own = keywords.clone();
    own.retain(|keyword, _| !COMPOSING.contains(&keyword.as_str()));
    let mut parts: Vec<Vec<Keywords>> = Vec::new();
    if let Some(reference) = keywords.get("$ref") {
        let target = reference.as_str().and_then(|name| name.strip_prefix('#'));
        let target = target.and_then(|pointer| root.pointer(pointer));
        parts.extend(target.map(|target| expanded(target, root, steps)));
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let Some(Value::Array(schemas)) = keywords.get(keyword) else {
            continue;
        };
        let each = schemas.iter().map(|schema| expanded(schema, root, steps));
        if keyword == "allOf" {
            parts.extend(each);
        } else {
            parts.push(each.flatten().collect());
        }
    }
    let mut all = vec![own];
    for part in parts {
        let pairs = all
            .iter()
            .flat_map(|one| part.iter().map(move |other| (one, other)));
        let merged = pairs.filter_map(|(one, other)| merge(one, other));
        all = merged.take(MOST_ALTERNATIVES).collect();
    }
    all
}

/// Returns the schema of the values that both describe; `None` if there are none.
fn merge(one: &Keywords, other: &Keywords) -> Option<Keywords> {
    let mut merged = one.clone();
    for (keyword, value) in other {
        let Some(own) = merged.get_mut(keyword) else {
            merged.insert(keyword.clone(), value.clone());
            continue;
        };
        match (keyword.as_str(), &mut *own, value) {
            ("type" | "enum", own, _) => *own = common(&listed(own), &listed(value))?,
            ("properties", Value::Object(own), Value::Object(others)) => {
                for (name, schema) in others {
                    let both = own.get(name).map(|own| json!({"allOf": [own, schema]}));
                    own.insert(name.clone(), both.unwrap_or_else(|| schema.clone()));
                }
            }
            ("required", Value::Array(own), Value::Array(others)) => {
                own.extend(others.iter().cloned());
            }
            ("additionalProperties", own, _) => *own = json!({"allOf": [own, value]}),
            ("pattern" | "format" | "not", own, _) => {
                let (mut all, others) = (listed(own), listed(value));
                all.extend(others);
                *own = Value::Array(all);
            }
            ("const", own, value) if own != value => return None,
            (name, Value::Number(own), Value::Number(limit)) => {
                let is_greater = limit.as_f64() > own.as_f64();
                if is_greater == (name.starts_with("min") || name.starts_with("exclusiveMin")) {
                    *own = limit.clone();
                }
            }
            _ => {}
        }
    }
    Some(merged)
}

/// Returns the schema of an object without `propertyNames`, if these allow any name or a list.
pub(super) fn with_names_listed(keywords: &Keywords) -> Keywords {
    let mut own = keywords.clone();
    let mut names = match own.get("propertyNames") {
        Some(Value::Object(names)) => names.clone(),
        Some(Value::Bool(false)) => return own,
        _ => Keywords::new(),
    };
    names.retain(|keyword, value| keyword != "type" || value != "string");
    match names.get("enum").and_then(Value::as_array) {
        Some(listed) if names.len() == 1 => {
            let others = own.get("additionalProperties").cloned();
            let others = others.unwrap_or_else(|| true.into());
            let properties = own.get("properties").cloned().unwrap_or_default();
            let listed = listed.iter().filter_map(Value::as_str);
            let schema = |name| properties.get(name).unwrap_or(&others).clone();
            let listed: Keywords = listed.map(|name| (name.to_owned(), schema(name))).collect();
            own.insert("properties".to_owned(), listed.into());
            own.insert("additionalProperties".to_owned(), false.into());
        }
        _ if !names.is_empty() => return own,
        _ => {}
    }
    own.shift_remove("propertyNames");
    own
}

/// Returns the values that a schema lists with `const` or `enum`.
pub(super) fn listed_values(keywords: &Keywords) -> Option<&[Value]> {
    let only = keywords.get("const").map(std::slice::from_ref);
    only.or_else(|| keywords.get("enum")?.as_array().map(Vec::as_slice))
}

/// Returns the elements of an array, or the single value.
pub(super) fn listed(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(values) => values.clone(),
        one => vec![one.clone()],
    }
}

/// Returns the common elements of two lists. Integers count as numbers.
fn common(ones: &[Value], others: &[Value]) -> Option<Value> {
    let number = Value::from("number");
    let holds = |all: &[Value], one: &Value| {
        all.contains(one) || (one == "integer" && all.contains(&number))
    };
    let both = ones.iter().chain(others);
    let both = both.filter(|one| holds(ones, one) && holds(others, one));
    let both: Vec<_> = both.cloned().collect();
    (!both.is_empty()).then_some(Value::Array(both))
}

/// The types that values may have, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kinds(u8);

/// Names of the types, in the order of their bits. Integers have a bit of their own.
const NAMES: [&str; 7] = [
    "string", "integer", "number", "boolean", "null", "array", "object",
];

impl Kinds {
    const ANY: Self = Self(0x7F);

    /// Returns the types of a schema's values.
    pub(super) fn from_schema(schema: &Value, root: &Value) -> Self {
        let all = alternatives(schema, root);
        all.iter().map(Self::new).fold(Self(0), Self::or)
    }

    /// Returns the types of the values of one of a schema's alternatives.
    pub(super) fn new(keywords: &Keywords) -> Self {
        if let Some(values) = listed_values(keywords) {
            return Self::among(values);
        }
        let Some(kinds) = keywords.get("type") else {
            return Self::ANY;
        };
        let named = |kind: &Value| NAMES.iter().position(|name| kind == name);
        let bits = listed(kinds);
        let bits = bits.iter().filter_map(named).map(|bit| {
            // Numbers include integers.
            if NAMES[bit] == "number" {
                Self(0b110)
            } else {
                Self(1 << bit)
            }
        });
        bits.fold(Self(0), Self::or)
    }

    /// Returns the types of these values.
    fn among(values: &[Value]) -> Self {
        let bits = values.iter().map(|value| Self(1 << Self::bit(value)));
        bits.fold(Self(0), Self::or)
    }

    fn bit(value: &Value) -> usize {
        match value {
            Value::String(_) => 0,
            Value::Number(number) if number.is_f64() => 2,
            Value::Number(_) => 1,
            Value::Bool(_) => 3,
            Value::Null => 4,
            Value::Array(_) => 5,
            Value::Object(_) => 6,
        }
    }

    fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn has_text(self) -> bool {
        self.0 & 1 != 0
    }

    /// Returns the names of the types except text.
    pub(super) fn others(self) -> Vec<&'static str> {
        let names = NAMES.iter().enumerate().skip(1);
        let names = names.filter(|(bit, _)| self.0 >> bit & 1 != 0);
        names.map(|(_, name)| *name).collect()
    }
}

/// Reads a value. A value with a number that is too large is replaced by another one of its type.
fn value(json: &str) -> Option<Value> {
    let read = serde_json::from_str(json).ok();
    let of_type = || match json.chars().next() {
        Some('{') => json!({}),
        Some('[') => json!([]),
        _ => json!(f64::MAX),
    };
    read.or_else(|| is_json(json).then(of_type))
}

/// The values that a parameter can have.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Domain {
    /// Types of all values, and types of those that are not listed.
    kinds: Kinds,
    unlisted: Kinds,
    listed: Vec<Value>,
}

impl Domain {
    /// Returns the values that these alternatives describe. Without alternatives it is any value.
    pub(super) fn new(alternatives: &[Keywords]) -> Self {
        let (mut unlisted, mut listed) = (Kinds(0), Vec::new());
        for keywords in alternatives {
            match listed_values(keywords) {
                Some(values) => listed.extend_from_slice(values),
                None => unlisted = unlisted.or(Kinds::new(keywords)),
            }
        }
        if alternatives.is_empty() {
            unlisted = Kinds::ANY;
        }
        Self {
            kinds: unlisted.or(Kinds::among(&listed)),
            unlisted,
            listed,
        }
    }

    /// Returns true if some values contain others.
    pub(super) fn has_nested(&self) -> bool {
        self.kinds.0 & 0b110_0000 != 0
    }

    /// Returns the JSON of the value that a text stands for: the text itself if it is JSON of an
    /// allowed value, or else a string with the text.
    pub(super) fn json(&self, text: &str) -> String {
        let json = match text.trim() {
            // Python templates write them so.
            "True" => "true",
            "False" => "false",
            "None" => "null",
            json => json,
        };
        match value(json) {
            Some(value) if self.admits(&value, json) => json.to_owned(),
            _ => Value::from(text).to_string(),
        }
    }

    fn admits(&self, value: &Value, json: &str) -> bool {
        if self.unlisted == Kinds::ANY || !self.kinds.has_text() {
            return true;
        }
        // An integer beyond 64 bits is read as a float.
        let is_whole = value.is_number() && !json.contains(['.', 'e', 'E']);
        let bit = if is_whole { 1 } else { Kinds::bit(value) };
        let is_same =
            |other: &Value| value == other || value.is_number() && value.as_f64() == other.as_f64();
        !value.is_string() && (self.unlisted.0 >> bit & 1 != 0 || self.listed.iter().any(is_same))
    }
}
