//! `markupsafe.Markup`: text that `safe` and `escape` mark, and that escapes what is added to it.
//!
//! Chat templates run without autoescaping, so nothing else becomes markup; `~`, `join` and
//! `replace` give plain text there. minijinja keeps the mark through its filters; operators and
//! methods are here.

use minijinja::value::{Tuple, Value};
use minijinja::{Error, State};

use super::arguments::Arguments;
use super::str_methods;
use super::text::str;
use super::value::{Type, items, iterate, pairs};

/// Whether a value is a `Markup`.
pub(super) fn is_markup(value: &Value) -> bool {
    value.is_safe()
}

/// `Markup(text)`.
pub(super) fn markup(text: impl Into<String>) -> Value {
    Value::from_safe_string(text.into())
}

/// A text of the kind that `model` is: markup gives markup.
pub(super) fn like(model: &Value, text: impl Into<String>) -> Value {
    if is_markup(model) {
        markup(text)
    } else {
        Value::from(text.into())
    }
}

/// `escape(value)`, as text: markup stays as it is.
pub(super) fn escape(value: &Value) -> String {
    if is_markup(value) {
        str(value)
    } else {
        escaped(&str(value))
    }
}

/// A text with HTML's special characters as entities.
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

/// An argument that is put into a markup: numbers are formatted as they are, everything else is
/// escaped first.
pub(super) fn format_argument(value: &Value) -> Value {
    match Type::of(value) {
        Type::Int | Type::Float => value.clone(),
        Type::Dict => {
            let entries = pairs(value).into_iter();
            Value::from_pairs(entries.map(|(key, value)| (key, format_argument(&value))))
        }
        _ => Value::from(escape(value)),
    }
}

/// Calls `markup.name(arguments)`.
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
        // What is put in.
        ("replace" | "ljust" | "rjust" | "center", [_, value, ..]) => {
            *value = Value::from(escape(value));
        }
        _ => {}
    }
    str_methods::call(state, subject, name, arguments).map(|result| marked(&result))
}

/// What a method gives: its texts are markup.
fn marked(result: &Value) -> Value {
    match Type::of(result) {
        Type::Str => markup(str(result)),
        Type::List => items(result).iter().map(marked).collect(),
        Type::Tuple => Value::from(Tuple::from(
            items(result).iter().map(marked).collect::<Vec<_>>(),
        )),
        _ => result.clone(),
    }
}
