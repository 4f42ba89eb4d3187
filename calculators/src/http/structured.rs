//! Constraints in requests: OpenAI's `response_format`, the `guided_*` fields of OVMS and vLLM,
//! vLLM's `structured_outputs`, and llama-server's `grammar` and `json_schema`.

use std::borrow::Cow;

use graphmill_engine::{Error, Result};
use serde_json::Value;

use super::fields::{Fields, code, invalid, missing, shown, written, wrong_type};
use crate::payload::{
    Constraint, TextConstraint,
    json::{Allowance, INVALID_JSON},
};

/// Longest name of a schema, as OpenAI has it.
const LONGEST_NAME: usize = 64;

/// Reads the one field that says what the text has to match.
pub(super) fn read(body: Fields<'_>) -> Result<Option<TextConstraint>> {
    let mut found = None;
    let allowance = body.allowance();
    let mut take = |constraint: Option<TextConstraint>| one(&mut found, constraint);
    take(response_format(body)?)?;
    for (field, read) in [
        ("guided_json", schema as Read),
        ("guided_regex", regex),
        ("guided_choice", choice),
        ("guided_grammar", grammar),
        ("grammar", grammar),
        ("json_schema", schema),
    ] {
        if let Some(value) = body.get(field)? {
            let constraint = read(value, field, &allowance)?;
            take(Some(of(field, constraint)))?;
        }
    }
    take(structured_outputs(body)?)?;
    Ok(found)
}

/// Reads the value of a field with this name.
type Read = fn(&Value, &str, &Allowance) -> Result<Constraint>;

fn of(field: impl Into<Cow<'static, str>>, constraint: Constraint) -> TextConstraint {
    TextConstraint {
        field: field.into(),
        constraint,
        compiled: None,
    }
}

/// Takes in a constraint, unless there is one.
fn one(found: &mut Option<TextConstraint>, constraint: Option<TextConstraint>) -> Result<()> {
    match (&found, constraint) {
        (Some(other), Some(constraint)) => Err(invalid(
            constraint.field,
            format!("cannot be used together with `{}`", other.field),
        )),
        (None, constraint) => {
            *found = constraint;
            Ok(())
        }
        (Some(_), None) => Ok(()),
    }
}

fn response_format(body: Fields<'_>) -> Result<Option<TextConstraint>> {
    let Some(format) = body.object("response_format")? else {
        return Ok(None);
    };
    let format = Fields::from(format);
    let allowance = body.allowance();
    match required_string(format, "type", "response_format.type")? {
        "text" => Ok(None),
        "json_object" => match format.get("schema")? {
            None => Ok(Some(of("response_format", Constraint::JsonObject))),
            Some(value) => {
                let field = "response_format.schema";
                Ok(Some(of(field, schema(value, field, &allowance)?)))
            }
        },
        "json_schema" => json_schema(format, &allowance).map(Some),
        kind => Err(invalid(
            "response_format.type",
            format!(
                "must be `text`, `json_object` or `json_schema`, not `{}`",
                shown(kind)
            ),
        )
        .with_code(code::VALUE)),
    }
}

fn json_schema(format: Fields<'_>, allowance: &Allowance) -> Result<TextConstraint> {
    let path = "response_format.json_schema";
    let named = match format.get("json_schema")? {
        Some(Value::Object(named)) => Fields::from(named),
        Some(other) => return Err(wrong_type(path, "an object", other)),
        None => return Err(missing(path)),
    };
    match named.get("name")? {
        None => {}
        Some(Value::String(name)) => {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_plain) {
                let message = format!(
                    "must have 1 to {LONGEST_NAME} letters, digits, underscores and dashes"
                );
                return Err(invalid(format!("{path}.name"), message));
            }
        }
        Some(other) => return Err(wrong_type(format!("{path}.name"), "a string", other)),
    }
    if let Some(strict) = named.get("strict")?
        && !strict.is_boolean()
    {
        return Err(wrong_type(format!("{path}.strict"), "a boolean", strict));
    }
    let field = "response_format.json_schema.schema";
    match named.get("schema")? {
        Some(value) => Ok(of(field, schema(value, field, allowance)?)),
        None => Err(missing(field)),
    }
}

/// vLLM's field: an object with one of several.
fn structured_outputs(body: Fields<'_>) -> Result<Option<TextConstraint>> {
    let Some(outputs) = body.object("structured_outputs")? else {
        return Ok(None);
    };
    let mut found = None;
    let allowance = body.allowance();
    for (name, value) in outputs.iter().filter(|(_, value)| !value.is_null()) {
        let field = format!("structured_outputs.{name}");
        let constraint = match name.as_str() {
            "json" => schema(value, &field, &allowance)?,
            "regex" => regex(value, &field, &allowance)?,
            "choice" => choice(value, &field, &allowance)?,
            "grammar" => grammar(value, &field, &allowance)?,
            "json_object" => match value {
                Value::Bool(true) => Constraint::JsonObject,
                Value::Bool(false) => continue,
                other => return Err(wrong_type(field, "a boolean", other)),
            },
            // There is nothing to fall back to, and no other way.
            "disable_fallback" if value.is_boolean() => continue,
            _ if value == &Value::Bool(false) => continue,
            _ => {
                let message =
                    "is not supported; `json`, `json_object`, `regex`, `choice` and `grammar` are";
                return Err(invalid(field, message).with_code(code::UNSUPPORTED));
            }
        };
        one(&mut found, Some(of(field, constraint)))?;
    }
    match found {
        Some(constraint) => Ok(Some(constraint)),
        None => Err(invalid("structured_outputs", "says nothing to match")),
    }
}

/// A schema as an object, or as a string of JSON.
fn schema(value: &Value, field: &str, allowance: &Allowance) -> Result<Constraint> {
    match value {
        Value::Object(_) | Value::Bool(_) => Ok(Constraint::JsonSchema(value.clone())),
        Value::String(text) => match allowance.parse(text.as_bytes(), field) {
            Ok(schema @ Value::Object(_)) => Ok(Constraint::JsonSchema(schema)),
            Ok(other) => Err(refused(
                field,
                format!("must be a JSON object, not {}", written(&other)),
            )),
            Err(error) if error.code.as_deref() == Some(INVALID_JSON) => {
                Err(error.with_code(code::VALUE))
            }
            Err(error) => Err(error),
        },
        other => Err(wrong_type(field.to_owned(), "a JSON schema", other)),
    }
}

fn regex(value: &Value, field: &str, _: &Allowance) -> Result<Constraint> {
    Ok(Constraint::Regex(text(value, field)?.to_owned()))
}

/// GBNF, or Lark: only the one defines rules with `::=`.
fn grammar(value: &Value, field: &str, _: &Allowance) -> Result<Constraint> {
    let grammar = text(value, field)?.to_owned();
    Ok(if grammar.contains("::=") {
        Constraint::Gbnf(grammar)
    } else {
        Constraint::Lark(grammar)
    })
}

fn choice(value: &Value, field: &str, _: &Allowance) -> Result<Constraint> {
    let Value::Array(list) = value else {
        return Err(wrong_type(field.to_owned(), "an array of strings", value));
    };
    if list.is_empty() {
        return Err(invalid(field.to_owned(), "must have at least one string"));
    }
    let text = |(index, value): (usize, &Value)| match value {
        Value::String(text) => Ok(text.clone()),
        other => Err(wrong_type(format!("{field}[{index}]"), "a string", other)),
    };
    let choices = list.iter().enumerate().map(text);
    Ok(Constraint::Choice(choices.collect::<Result<_>>()?))
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    match value {
        Value::String(text) if text.trim().is_empty() => Err(refused(field, "must not be empty")),
        Value::String(text) => Ok(text),
        other => Err(wrong_type(field.to_owned(), "a string", other)),
    }
}

fn refused(field: &str, message: impl std::fmt::Display) -> Error {
    invalid(field.to_owned(), message)
}

fn required_string<'a>(fields: Fields<'a>, name: &str, path: &'static str) -> Result<&'a str> {
    match fields.get(name)? {
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(wrong_type(path, "a string", other)),
        None => Err(missing(path)),
    }
}
