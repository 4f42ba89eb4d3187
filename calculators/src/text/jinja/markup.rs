//! Python's `markupsafe.Markup`: text that `safe` and `escape` mark, and that escapes text added to
//! it.
//!
//! Chat templates run without autoescaping, so nothing else becomes markup; `~`, `join` and
//! `replace` return plain text there. minijinja keeps the mark in its filters. Operators and
//! methods are here.

use minijinja::value::{Tuple, Value};
use minijinja::{Error, State};

use super::arguments::Arguments;
use super::str_methods;
use super::text::str;
use super::value::{Type, items, iterate, pairs};

/// Returns true if a value is a `Markup`.
pub(super) fn is_markup(value: &Value) -> bool {
    value.is_safe()
}

/// Creates a `Markup` of a text.
pub(super) fn markup(text: impl Into<String>) -> Value {
    Value::from_safe_string(text.into())
}

/// Creates a text that is markup if `model` is.
pub(super) fn like(model: &Value, text: impl Into<String>) -> Value {
    if is_markup(model) {
        markup(text)
    } else {
        Value::from(text.into())
    }
}

/// Evaluates `escape(value)` as text. Markup stays unchanged.
pub(super) fn escape(value: &Value) -> String {
    if is_markup(value) {
        str(value)
    } else {
        escaped(&str(value))
    }
}

/// Replaces HTML's special characters by entities.
pub(super) fn escaped(text: &str) -> String {
    let entities = [
        ('&', "&amp;"),
        ('<', "&lt;"),
        ('>', "&gt;"),
        ('"', "&#34;"),
        ('\'', "&#39;"),
    ];
    entities
        .into_iter()
        .fold(text.to_owned(), |text, (c, entity)| text.replace(c, entity))
}

/// Prepares an argument that is put into a markup: numbers stay unchanged, and everything else is
/// escaped.
pub(super) fn format_argument(value: &Value) -> Value {
    match Type::from_value(value) {
        Type::Int | Type::Float => value.clone(),
        Type::Dict => {
            let entries = pairs(value).into_iter();
            Value::from_pairs(entries.map(|(key, value)| (key, format_argument(&value))))
        }
        _ => Value::from(escape(value)),
    }
}

/// Calls a method of a markup: `markup.name(arguments)`.
pub(super) fn call(
    state: &mut State<'_, '_>,
    subject: &Value,
    name: &str,
    mut arguments: Arguments,
) -> Result<Value, Error> {
    match (name, arguments.positional.as_mut_slice()) {
        ("join", [parts]) => {
            let escaped = iterate(parts)?
                .into_iter()
                .map(|part| Value::from(escape(&part)));
            *parts = escaped.collect();
        }
        // This argument becomes part of the text.
        ("replace" | "ljust" | "rjust" | "center", [_, value, ..]) => {
            *value = Value::from(escape(value));
        }
        _ => {}
    }
    str_methods::call(state, subject, name, arguments).map(|result| marked(&result))
}

/// Marks all texts in a method's result as markup.
fn marked(result: &Value) -> Value {
    match Type::from_value(result) {
        Type::Str => markup(str(result)),
        Type::List => items(result).iter().map(marked).collect(),
        Type::Tuple => Value::from(Tuple::from(
            items(result).iter().map(marked).collect::<Vec<_>>(),
        )),
        _ => result.clone(),
    }
}
