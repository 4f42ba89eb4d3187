//! Prepares a JSON schema for llguidance. References are [resolved](references), keywords that it does
//! not know are [rewritten](rewriting) by those that it does, numbers are [held](limits) within what
//! it computes with, and what remains of numbers beyond that is [written](exact) as a grammar of
//! Lark around it. What none of them can hold is refused with its place in the schema.
//!
//! Unbounded parts of a schema are bounded, as in llama.cpp and xgrammar, because a model might
//! never end them: integers without bounds have at most 16 digits, white space is short, and an
//! object that lists its properties has no others unless the schema says so.

mod closing;
mod conditions;
mod cycles;
mod elements;
mod exact;
mod exclusive;
mod keywords;
mod limits;
mod names;
mod parts;
mod references;
mod rewriting;
mod sharing;
mod spelling;

use std::fmt;

use serde_json::{Value, json};

use super::bounds;
use super::compiler::ConstraintError;

/// White space between the parts of a document: a space, or a new line and its indentation. A model
/// that gets lost in white space would otherwise never come out of it.
const WHITE_SPACE: &str = r"[ \t]|\r?\n[ \t]{0,40}";
/// Escapes that strings are written with. Without `\u`, a name has one spelling, and no second
/// value can hide behind another.
const ESCAPES: &str = "nrbtf\\\"";
/// Maximum nesting of schemas that are looked into for what they say together.
const DEEPEST: usize = 12;

/// A schema as llguidance is to read it.
#[derive(Debug)]
pub(super) enum Notation {
    /// As a schema.
    Json(Value),
    /// As a grammar of Lark.
    Lark(String),
}

/// The pointer to what is within a place.
fn within(place: &str, name: &str) -> String {
    format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"))
}

type Result<T = ()> = std::result::Result<T, ConstraintError>;

fn refused<T>(keyword: &str, why: impl fmt::Display, place: &str) -> Result<T> {
    let at = if place.is_empty() {
        String::new()
    } else {
        format!(" at `#{place}`")
    };
    Err(ConstraintError(format!("`{keyword}` {why}{at}")))
}

/// The schema as llguidance is to read it.
pub(super) fn prepare(schema: &Value) -> Result<Notation> {
    let options = json!({"whitespace_pattern": WHITE_SPACE, "json_allowed_escapes": ESCAPES});
    prepare_as(schema, Some(options), true)
}

/// The schema without annotations, whose references all lead to its `$defs`, and in which what
/// patterns look ahead for are patterns of their own.
///
/// # Errors
/// A reference that leads to nothing, and a keyword with a value that it cannot have.
pub fn resolved(schema: &Value) -> Result<Value> {
    let (mut schema, _) = references::resolve(schema)?;
    rewriting::split_patterns(&mut schema, "")?;
    Ok(schema)
}

/// A schema within a grammar of Lark, whose options and open objects stay as they are.
pub(super) fn prepare_within(schema: &Value) -> Result<Notation> {
    let options = schema.get("x-guidance").filter(|it| it.is_object());
    prepare_as(schema, options.cloned(), false)
}

fn prepare_as(schema: &Value, options: Option<Value>, closes: bool) -> Result<Notation> {
    match schema {
        Value::Object(_) | Value::Bool(true) => {}
        Value::Bool(false) => return Err(ConstraintError("no text can match".to_owned())),
        _ => return Err(ConstraintError("a schema is a JSON object".to_owned())),
    }
    let (mut schema, places) = references::resolve(schema)?;
    if closes {
        closing::close_objects(&mut schema);
    }
    rewriting::rewrite(&mut schema, &places)?;
    bounds::check_schema(&schema)?;
    exact::write(schema, options, &places)
}

#[cfg(test)]
mod tests;
