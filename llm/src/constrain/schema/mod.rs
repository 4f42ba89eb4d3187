//! Prepares a JSON schema for llguidance. References are [resolved](references), unsupported
//! keywords are [rewritten](rewriting) by supported ones, and numbers are [limited](limits) to the
//! supported range. Numbers beyond it are [written](exact) as a Lark grammar around the schema.
//! Anything else is refused with its place in the schema.
//!
//! Unbounded parts of a schema are bounded, as in llama.cpp and xgrammar, because a model might
//! never end them. Integers without bounds have at most 16 digits, white space is short, and an
//! object that lists its properties has no others unless the schema allows them.

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
pub(super) use keywords::list;

/// White space between the parts of a document: a space, or a new line and its indentation.
/// Otherwise a model might generate white space forever.
const WHITE_SPACE: &str = r"[ \t]|\r?\n[ \t]{0,40}";
/// Escape sequences of strings. Without `\u`, a name has only one spelling, so no second value can
/// hide behind another.
const ESCAPES: &str = "nrbtf\\\"";
/// Maximum nesting of schemas that are combined to find their common restrictions.
const DEEPEST: usize = 12;

/// A schema in a form that llguidance can read.
#[derive(Debug)]
pub(super) enum Notation {
    /// The form of a schema.
    Json(Value),
    /// The form of a Lark grammar.
    Lark(String),
}

/// Returns the pointer to `name` within a place.
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

/// Converts a schema to a form that llguidance can read.
pub(super) fn prepare(schema: &Value) -> Result<Notation> {
    let options = json!({"whitespace_pattern": WHITE_SPACE, "json_allowed_escapes": ESCAPES});
    prepare_as(schema, Some(options), true)
}

/// Returns the schema without annotations. All references lead to its `$defs`, and lookaheads of
/// patterns are separate patterns.
///
/// # Errors
/// A reference without a target, and a keyword with an invalid value.
pub fn resolved(schema: &Value) -> Result<Value> {
    let (mut schema, _) = references::resolve(schema)?;
    rewriting::split_patterns(&mut schema, "")?;
    Ok(schema)
}

/// Prepares a schema within a Lark grammar. Its options and open objects are not changed.
pub(super) fn prepare_within(schema: &Value) -> Result<Notation> {
    let options = schema.get("x-guidance").filter(|it| it.is_object());
    prepare_as(schema, options.cloned(), false)
}

fn prepare_as(schema: &Value, options: Option<Value>, closes: bool) -> Result<Notation> {
    match schema {
        Value::Object(_) | Value::Bool(true) => {}
        Value::Bool(false) => return Err(ConstraintError("no text can match".to_owned())),
        _ => return Err(ConstraintError("a schema must be a JSON object".to_owned())),
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
