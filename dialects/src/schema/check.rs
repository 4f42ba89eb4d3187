//! Checks of values against the schema of their field.

use std::fmt::Display;

use graphmill_engine::Result;
use serde_json::{Map, Number, Value};

use super::words::{branches, kinds, words};
use crate::error::{
    at_most, code, invalid, missing, shown, unsupported, whole, written, wrong_type,
};

/// Pattern of a tool's or schema's name.
pub const NAME: &str = "^[a-zA-Z0-9_-]{1,64}$";
/// Pattern of a text that is not only white space.
pub const NOT_BLANK: &str = "\\S";
/// Pattern of a token id as a key.
pub const ID: &str = "^[0-9]+$";

/// Checks a value. Writes whole numbers without a fraction if the schema has integers.
///
/// # Errors
/// Names the place that is wrong.
pub(crate) fn check(value: &mut Value, schema: &Value, path: &dyn Display) -> Result<()> {
    if let Some(branches) = branches(schema) {
        return check_branches(value, branches, schema, path);
    }
    if !has_type(value, schema) {
        return Err(wrong_type(path, &kinds(schema), value));
    }
    let is_allowed = match (&schema["enum"], schema.get("const")) {
        (Value::Array(values), _) => values.iter().any(|each| equal(each, value)),
        (_, Some(only)) => equal(only, value),
        _ => true,
    };
    if !is_allowed && schema["x-only"] == true {
        let why = schema["description"].as_str();
        return Err(unsupported(path, Some(value), why));
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

fn not_allowed(schema: &Value, value: &Value, path: &dyn Display) -> graphmill_engine::Error {
    let message = format!("must be {}, not {}", words(schema), written(value));
    invalid(path, message)
}

/// Checks a value that may have several forms: against the form that it has, or else the one with
/// its type or `type`.
fn check_branches(
    value: &mut Value,
    branches: &[Value],
    schema: &Value,
    path: &dyn Display,
) -> Result<()> {
    let fits = |branch: &&Value| match branch.get("const") {
        Some(only) => equal(only, value),
        None => has_type(value, branch),
    };
    let fitting = branches.iter().filter(fits);
    let form = fitting.min_by_key(|form| form.get("const").is_none());
    let Some(form) = form else {
        return Err(wrong_type(path, &kinds(schema), value));
    };
    if tags(form).is_none() {
        return check(value, form, path);
    }
    if let (Some(usual), Value::Object(fields)) = (schema.get("x-usual"), &mut *value) {
        let kind = fields.entry("type").or_insert(Value::Null);
        if kind.is_null() {
            *kind = usual.clone();
        }
    }
    let form = tagged(value, branches, schema, path)?;
    // An object that is left out is not checked.
    match form.get("x-tags") {
        Some(_) => Ok(()),
        None => check(value, form, path),
    }
}

/// Returns the values of `type` for objects of this form. A value that ends in `*` means all types
/// with this prefix.
fn tags(branch: &Value) -> Option<impl Iterator<Item = &str>> {
    let tag = &branch["properties"]["type"];
    let only = tag.get("const").map(std::slice::from_ref);
    let left_out = branch["x-tags"].as_array().map(Vec::as_slice);
    let any = tag["enum"].as_array().map(Vec::as_slice);
    let tags = left_out.or(only).or(any)?;
    Some(tags.iter().filter_map(Value::as_str))
}

/// Returns the form that the `type` of an object names.
fn tagged<'a>(
    value: &Value,
    branches: &'a [Value],
    schema: &Value,
    path: &dyn Display,
) -> Result<&'a Value> {
    let path = format!("{path}.type");
    let kind = match value.get("type") {
        Some(Value::String(kind)) => kind,
        None | Some(Value::Null) => return Err(missing(path)),
        Some(other) => return Err(wrong_type(path, "a string", other)),
    };
    let is_kind = |tag: &str| match tag.strip_suffix('*') {
        Some(begin) => kind.starts_with(begin),
        None => kind == tag,
    };
    let named = |branch: &&Value| tags(branch).into_iter().flatten().any(is_kind);
    branches.iter().find(named).ok_or_else(|| {
        let kind = shown(kind);
        if let Some(why) = schema["x-unsupported"].as_str() {
            let message = format!("`{kind}` is not supported: {why}");
            return invalid(path, message).with_code(code::UNSUPPORTED);
        }
        let all = branches.iter().filter_map(tags).flatten();
        let all: Vec<String> = all.map(|tag| format!("`{tag}`")).collect();
        let message = format!("must be one of {}, not `{kind}`", all.join(", "));
        invalid(path, message)
    })
}

/// Returns `true` if a value has the type of a schema, whatever its size.
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

/// Returns `true` if two values are equal; 1 equals 1.0.
fn equal(left: &Value, right: &Value) -> bool {
    left == right || (left.is_number() && left.as_f64() == right.as_f64())
}

fn check_number(number: &mut Number, schema: &Value, path: &dyn Display) -> Result<()> {
    let bound = |name: &str| schema[name].as_f64();
    let found = number.as_f64().unwrap_or(f64::NAN);
    let value = Value::Number(number.clone());
    if schema["type"] == "integer" {
        let most = whole(&schema["maximum"]);
        if let Some(most) = most.filter(|most| whole(&value).is_some_and(|it| it > *most)) {
            let message = format!("must be at most {most}, not {}", written(&value));
            return Err(invalid(path, message));
        }
    }
    let is_within = bound("minimum").is_none_or(|least| found >= least)
        && bound("maximum").is_none_or(|most| found <= most)
        && bound("exclusiveMinimum").is_none_or(|least| found > least);
    if !is_within {
        return Err(not_allowed(schema, &value, path));
    }
    if schema["type"] == "integer"
        && let Some(whole) = whole(&value).and_then(Number::from_i128)
    {
        *number = whole;
    }
    Ok(())
}

fn check_text(text: &str, schema: &Value, path: &dyn Display) -> Result<()> {
    let limit = |name: &str| schema[name].as_u64().map(|limit| limit as usize);
    let is_blank = schema["pattern"] == NOT_BLANK && text.trim().is_empty();
    if is_blank || (limit("minLength").is_some() && text.is_empty()) {
        return Err(invalid(path, "must not be empty"));
    }
    if let Some(most) = limit("maxLength") {
        at_most(path, text.chars().count(), most, "characters")?;
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let is_name = (1..=64).contains(&text.len()) && text.chars().all(is_plain);
    if schema["pattern"] == NAME && !is_name {
        let message = "must have 1 to 64 letters, digits, underscores and dashes";
        return Err(invalid(path, message));
    }
    Ok(())
}

fn check_list(list: &mut [Value], schema: &Value, path: &dyn Display) -> Result<()> {
    let what = schema["x-entries"].as_str().unwrap_or("entries");
    if list.is_empty() && schema["minItems"].as_u64().is_some_and(|least| least > 0) {
        return Err(invalid(path, "must not be an empty array"));
    }
    if let Some(most) = schema["maxItems"].as_u64() {
        at_most(path, list.len(), most as usize, what)?;
    }
    if let Some(pair) = schema["prefixItems"].as_array() {
        if list.len() != pair.len() {
            let list = Value::Array(list.to_vec());
            return Err(wrong_type(path, &kinds(schema), &list));
        }
        let mut both = list.iter_mut().zip(pair);
        // A mistake in a pair is reported for the whole pair.
        return both.try_for_each(|(value, schema)| check(value, schema, path));
    }
    let Some(item) = schema.get("items") else {
        return Ok(());
    };
    let mut all = list.iter_mut().enumerate();
    all.try_for_each(|(index, value)| check(value, item, &format_args!("{path}[{index}]")))
}

fn check_object(fields: &mut Map<String, Value>, schema: &Value, path: &dyn Display) -> Result<()> {
    if let Some(most) = schema["maxProperties"].as_u64() {
        at_most(path, fields.len(), most as usize, "entries")?;
    }
    let (properties, required) = (&schema["properties"], schema["required"].as_array());
    for (name, schema) in properties.as_object().into_iter().flatten() {
        let path = format_args!("{path}.{name}");
        match fields.get_mut(name).filter(|value| !value.is_null()) {
            Some(value) => check(value, schema, &path)?,
            None if required.is_some_and(|all| all.iter().any(|it| it == name)) => {
                return Err(missing(path));
            }
            None => {}
        }
    }
    let other = &schema["additionalProperties"];
    if other.is_null() || *other == true {
        return Ok(());
    }
    for (name, value) in fields.iter_mut() {
        if properties.get(name).is_some() || value.is_null() {
            continue;
        }
        let path = format_args!("{path}.{name}");
        if schema["propertyNames"]["pattern"] == ID && name.parse::<i32>().is_err() {
            return Err(invalid(path, "must have token ids as keys"));
        }
        match other.get("const") {
            Some(only) if equal(only, value) => {}
            None if other.is_object() => check(value, other, &path)?,
            _ => return Err(unsupported(path, Some(value), None)),
        }
    }
    Ok(())
}
