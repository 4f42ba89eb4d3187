//! Checks values against the schema of their field.

use std::fmt;

use graphmill_engine::Result;
use serde_json::{Map, Number, Value};

use super::words::{kinds, words};
use crate::error::{
    at_most, code, invalid, missing, shown, unsupported, whole, written, wrong_type,
};

/// The pattern of a name.
pub const NAME: &str = "^[a-zA-Z0-9_-]{1,64}$";
/// The pattern of a text that is not white space alone.
pub const NOT_BLANK: &str = "\\S";
/// The pattern of a token id as a key.
pub const ID: &str = "^[0-9]+$";

/// A place in a field.
#[derive(Copy, Clone)]
pub(super) enum Path<'a> {
    Field(&'a str),
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => f.write_str(name),
            Self::Key(parent, key) => write!(f, "{parent}.{key}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Checks a value, and writes whole numbers without a fraction where the schema has integers.
///
/// # Errors
/// Names the place that is wrong.
pub(super) fn check(value: &mut Value, schema: &Value, path: Path<'_>) -> Result<()> {
    if let Some(branches) = branches(schema) {
        return check_branches(value, branches, schema, path);
    }
    if !has_type(value, schema) {
        return Err(wrong_type(path.to_string(), &kinds(schema), value));
    }
    let is_allowed = match (&schema["enum"], schema.get("const")) {
        (Value::Array(values), _) => values.iter().any(|each| equal(each, value)),
        (_, Some(only)) => equal(only, value),
        _ => true,
    };
    if !is_allowed && schema["x-only"] == true {
        return Err(unsupported(path.to_string(), value));
    }
    if !is_allowed {
        return Err(not_allowed(schema, value, path));
    }
    match value {
        Value::Number(number) => check_number(number, schema, path),
        Value::String(text) => check_text(text, schema, path),
        Value::Array(list) => check_list(list, schema, path),
        Value::Object(fields) => check_object(fields, schema, path),
        Value::Null | Value::Bool(_) => Ok(()),
    }
}

fn branches(schema: &Value) -> Option<&Vec<Value>> {
    ["anyOf", "oneOf"]
        .iter()
        .find_map(|name| schema[name].as_array())
}

fn not_allowed(schema: &Value, value: &Value, path: Path<'_>) -> graphmill_engine::Error {
    let message = format!("must be {}, not {}", words(schema), written(value));
    invalid(path.to_string(), message)
}

/// Checks a value of which there are several forms: against the one that has its type, or its
/// `type`.
fn check_branches(
    value: &mut Value,
    branches: &[Value],
    schema: &Value,
    path: Path<'_>,
) -> Result<()> {
    let fits = |branch: &&Value| match branch.get("const") {
        Some(only) => equal(only, value),
        None => has_type(value, branch),
    };
    let mut fitting = branches.iter().filter(fits);
    let fitting = (fitting.next(), fitting.next());
    match fitting {
        (None, _) => Err(wrong_type(path.to_string(), &kinds(schema), value)),
        (Some(form), _) if tags(form).is_some() => {
            if let (Some(usual), Value::Object(fields)) = (schema.get("x-usual"), &mut *value) {
                let kind = fields.entry("type").or_insert(Value::Null);
                if kind.is_null() {
                    *kind = usual.clone();
                }
            }
            let branch = tagged(value, branches, schema, path)?;
            // What is left out is not looked at.
            if branch.get("x-tags").is_some() {
                return Ok(());
            }
            check(value, branch, path)
        }
        (Some(only), None) => check(value, only, path),
        (Some(first), Some(_)) => {
            let mut results = branches.iter().map(|branch| check(value, branch, path));
            if results.any(|result| result.is_ok()) {
                Ok(())
            } else if value.is_number() || value.is_string() {
                Err(not_allowed(schema, value, path))
            } else {
                check(value, first, path)
            }
        }
    }
}

/// The values of `type` that an object of this form has. One that ends in `*` stands for all that
/// begin like it.
fn tags(branch: &Value) -> Option<Vec<&str>> {
    if let Some(tags) = branch["x-tags"].as_array() {
        return Some(tags.iter().filter_map(Value::as_str).collect());
    }
    let tag = &branch["properties"]["type"];
    match tag.get("const") {
        Some(only) => Some(vec![only.as_str()?]),
        None => Some(
            tag["enum"]
                .as_array()?
                .iter()
                .filter_map(Value::as_str)
                .collect(),
        ),
    }
}

/// The form that the `type` of an object names.
fn tagged<'a>(
    value: &Value,
    branches: &'a [Value],
    schema: &Value,
    path: Path<'_>,
) -> Result<&'a Value> {
    let path = Path::Key(&path, "type").to_string();
    let kind = match value.get("type") {
        Some(Value::String(kind)) => kind,
        None | Some(Value::Null) => return Err(missing(path)),
        Some(other) => return Err(wrong_type(path, "a string", other)),
    };
    let is_kind = |tag: &str| match tag.strip_suffix('*') {
        Some(begin) => kind.starts_with(begin),
        None => kind == tag,
    };
    let named = |branch: &&Value| tags(branch).is_some_and(|tags| tags.into_iter().any(is_kind));
    branches.iter().find(named).ok_or_else(|| {
        let kind = shown(kind);
        if let Some(why) = schema["x-unsupported"].as_str() {
            let message = format!("`{kind}` is not supported: {why}");
            return invalid(path, message).with_code(code::UNSUPPORTED);
        }
        let all = branches.iter().filter_map(tags).flatten();
        let all: Vec<String> = all.map(|tag| format!("`{tag}`")).collect();
        invalid(
            path,
            format!("must be one of {}, not `{kind}`", all.join(", ")),
        )
    })
}

/// Returns true if a value has the type of a schema, however large it is.
pub(crate) fn has_type(value: &Value, schema: &Value) -> bool {
    let is = |kind: &Value| match kind.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => false,
    };
    match &schema["type"] {
        Value::Null => branches(schema).is_none_or(|all| all.iter().any(|it| has_type(value, it))),
        Value::Array(kinds) => kinds.iter().any(is),
        kind => is(kind),
    }
}

/// Equal, where 1 and 1.0 are.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    left == right || (left.is_number() && left.as_f64() == right.as_f64())
}

fn check_number(number: &mut Number, schema: &Value, path: Path<'_>) -> Result<()> {
    let bound = |name: &str| schema[name].as_f64();
    let found = number.as_f64().unwrap_or(f64::NAN);
    let value = Value::Number(number.clone());
    if schema["type"] == "integer" {
        let most = schema["maximum"].as_i64();
        let above = most.filter(|most| whole(&value).map_or(found > 0.0, |it| it > *most));
        if let Some(most) = above {
            let message = format!("must be at most {most}, not {}", written(&value));
            return Err(invalid(path.to_string(), message));
        }
    }
    let is_within = bound("minimum").is_none_or(|least| found >= least)
        && bound("maximum").is_none_or(|most| found <= most)
        && bound("exclusiveMinimum").is_none_or(|least| found > least);
    if !is_within {
        return Err(not_allowed(schema, &value, path));
    }
    if schema["type"] == "integer"
        && let Some(whole) = whole(&value)
    {
        *number = whole.into();
    }
    Ok(())
}

fn check_text(text: &str, schema: &Value, path: Path<'_>) -> Result<()> {
    let limit = |name: &str| schema[name].as_u64().map(|limit| limit as usize);
    if limit("minLength").is_some_and(|_| text.is_empty()) {
        return Err(invalid(path.to_string(), "must not be empty"));
    }
    if let Some(most) = limit("maxLength") {
        at_most(path.to_string(), text.chars().count(), most, "characters")?;
    }
    match schema["pattern"].as_str() {
        Some(NOT_BLANK) if text.trim().is_empty() => {
            Err(invalid(path.to_string(), "must not be empty"))
        }
        Some(NAME) => {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if (1..=64).contains(&text.len()) && text.chars().all(is_plain) {
                return Ok(());
            }
            let message = "must have 1 to 64 letters, digits, underscores and dashes";
            Err(invalid(path.to_string(), message))
        }
        _ => Ok(()),
    }
}

fn check_list(list: &mut [Value], schema: &Value, path: Path<'_>) -> Result<()> {
    let what = schema["x-entries"].as_str().unwrap_or("entries");
    if schema["minItems"]
        .as_u64()
        .is_some_and(|least| list.is_empty() && least > 0)
    {
        return Err(invalid(path.to_string(), "must not be an empty array"));
    }
    if let Some(most) = schema["maxItems"].as_u64() {
        at_most(path.to_string(), list.len(), most as usize, what)?;
    }
    if let Some(pair) = schema["prefixItems"].as_array() {
        if list.len() != pair.len() {
            let list = Value::Array(list.to_vec());
            return Err(wrong_type(path.to_string(), &kinds(schema), &list));
        }
        let mut both = list.iter_mut().zip(pair);
        // What is wrong in a pair is wrong with the pair.
        return both.try_for_each(|(value, schema)| check(value, schema, path));
    }
    let Some(item) = schema.get("items") else {
        return Ok(());
    };
    let mut all = list.iter_mut().enumerate();
    all.try_for_each(|(index, value)| check(value, item, Path::Index(&path, index)))
}

fn check_object(fields: &mut Map<String, Value>, schema: &Value, path: Path<'_>) -> Result<()> {
    if let Some(most) = schema["maxProperties"].as_u64() {
        at_most(path.to_string(), fields.len(), most as usize, "entries")?;
    }
    let nothing = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&nothing);
    let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    for (name, schema) in properties {
        match fields.get_mut(name) {
            None | Some(Value::Null) if required.contains(&Value::from(name.as_str())) => {
                return Err(missing(Path::Key(&path, name).to_string()));
            }
            None | Some(Value::Null) => {}
            Some(value) => check(value, schema, Path::Key(&path, name))?,
        }
    }
    let other = schema.get("additionalProperties");
    let Some(other) = other.filter(|other| **other != true) else {
        return Ok(());
    };
    for (name, value) in fields.iter_mut() {
        if properties.contains_key(name) || value.is_null() {
            continue;
        }
        let path = Path::Key(&path, name);
        if schema["propertyNames"]["pattern"] == ID && name.parse::<i32>().is_err() {
            return Err(invalid(path.to_string(), "must have a token id for a key"));
        }
        match other.get("const") {
            Some(only) if equal(only, value) => {}
            None if other.is_object() => check(value, other, path)?,
            _ => return Err(unsupported(path.to_string(), value)),
        }
    }
    Ok(())
}
