//! Schemas of arguments that are not written as JSON: what they allow, taken apart.

use serde_json::{Map, Value, json};

/// The most schemas that a schema is taken apart into, and most that are looked at on the way.
const MOST_ALTERNATIVES: usize = 64;
const MOST_STEPS: usize = 500;
/// Keywords that compose schemas, and those beside which definitions stand.
const COMPOSING: [&str; 6] = ["$ref", "allOf", "anyOf", "oneOf", "$defs", "definitions"];

pub(super) type Keywords = Map<String, Value>;

/// The schemas one of which describes each value of a schema: without references, `allOf`, `anyOf`
/// and `oneOf`. There are none if there is no end to them.
pub(super) fn alternatives(schema: &Value, root: &Value) -> Vec<Keywords> {
    expanded(schema, root, &mut { MOST_STEPS })
}

fn expanded(schema: &Value, root: &Value, steps: &mut usize) -> Vec<Keywords> {
    let keywords = match schema {
        Value::Object(keywords) if *steps > 0 => keywords,
        Value::Object(_) | Value::Bool(false) => return Vec::new(),
        _ => return vec![Keywords::new()],
    };
    *steps -= 1;
    let mut own = keywords.clone();
    own.retain(|keyword, _| !COMPOSING.contains(&keyword.as_str()));
    let mut parts: Vec<Vec<Keywords>> = Vec::new();
    if let Some(reference) = keywords.get("$ref") {
        let target = reference.as_str().and_then(|name| name.strip_prefix('#'));
        match target.and_then(|pointer| root.pointer(pointer)) {
            Some(target) => parts.push(expanded(target, root, steps)),
            // What it refers to is for the compiler of the grammar to say.
            None => drop(own.insert("$ref".to_owned(), reference.clone())),
        }
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

/// The schema of the values that both describe; none if there are none.
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
            ("pattern" | "not", own, _) => {
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

/// The elements of an array, or the one value.
pub(super) fn listed(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(values) => values.clone(),
        one => vec![one.clone()],
    }
}

/// Returns the elements of both lists, where whole numbers are numbers as well.
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

/// The types that values may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kinds(u8);

/// Names of the types, by their bits; whole numbers have one of their own.
const NAMES: [&str; 7] = [
    "string", "integer", "number", "boolean", "null", "array", "object",
];

impl Kinds {
    pub(super) const ANY: Self = Self(0x7F);

    /// The types of a schema's values.
    pub(super) fn of(schema: &Value, root: &Value) -> Self {
        let all = alternatives(schema, root);
        all.iter().map(Self::of_keywords).fold(Self(0), Self::or)
    }

    /// The types of the values of one of a schema's alternatives.
    pub(super) fn of_keywords(keywords: &Keywords) -> Self {
        let of_value = |value: &Value| Self(1 << Self::bit(value));
        if let Some(value) = keywords.get("const") {
            return of_value(value);
        }
        if let Some(Value::Array(values)) = keywords.get("enum") {
            return values.iter().map(of_value).fold(Self(0), Self::or);
        }
        let Some(kinds) = keywords.get("type") else {
            return Self::ANY;
        };
        let named = |kind: &Value| NAMES.iter().position(|name| kind == name);
        let bits = listed(kinds);
        let bits = bits.iter().filter_map(named).map(|bit| {
            // Numbers may be whole.
            if NAMES[bit] == "number" {
                Self(0b110)
            } else {
                Self(1 << bit)
            }
        });
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

    pub(super) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn has_text(self) -> bool {
        self.0 & 1 != 0
    }

    /// Returns true if there are types whose values contain others.
    pub(super) fn has_nested(self) -> bool {
        self.0 & 0b110_0000 != 0
    }

    /// The names of the types without text.
    pub(super) fn others(self) -> Vec<&'static str> {
        let names = NAMES.iter().enumerate().skip(1);
        let names = names.filter(|(bit, _)| self.0 >> bit & 1 != 0);
        names.map(|(_, name)| *name).collect()
    }

    /// Returns the value that a text stands for: the JSON in it, if that may be, or itself.
    pub(super) fn value(self, text: &str) -> Value {
        let json = match text.trim() {
            // Templates in Python write them so.
            "True" => Some(true.into()),
            "False" => Some(false.into()),
            "None" => Some(Value::Null),
            json => serde_json::from_str::<Value>(json).ok(),
        };
        match json {
            Some(json) if self == Self::ANY || !self.has_text() => json,
            Some(json) if !json.is_string() && self.0 >> Self::bit(&json) & 1 != 0 => json,
            _ => text.into(),
        }
    }
}
