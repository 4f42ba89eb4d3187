//! `markupsafe.Markup`: text that `safe` and `escape` mark, and that escapes what is added to it.
//!
//! Chat templates run without autoescaping, so nothing else becomes markup; `~`, `join` and `replace` give plain text there.

use minijinja::Error;
use minijinja::formatting::FormatStyle;
use minijinja::value::{Kwargs, Tuple, Value};

use super::budget;
use super::call::Arguments;
use super::ops::formatted;
use super::str_methods;
use super::text;
use super::value::{Type, error, items, iterate, pairs};

/// Whether a value is a `Markup`.
pub(crate) fn is_markup(value: &Value) -> bool {
    value.is_safe()
}

/// `Markup(text)`.
pub(crate) fn markup(text: impl Into<String>) -> Value {
    Value::from_safe_string(text.into())
}

/// A text of the kind that `model` is: markup gives markup.
pub(crate) fn like(model: &Value, text: impl Into<String>) -> Value {
    if is_markup(model) {
        markup(text)
    } else {
        Value::from(text.into())
    }
}

/// `escape(value)`, as text: markup stays as it is.
pub(crate) fn escape(value: &Value) -> String {
    let text = text::str(value);
    if is_markup(value) {
        text.into_owned()
    } else {
        escaped(&text)
    }
}

/// A text with HTML's special characters as entities.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// An argument that is put into a markup: numbers are formatted as they are, everything else is escaped first.
pub(crate) fn format_argument(value: &Value) -> Value {
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
pub(crate) fn call(subject: &str, name: &str, mut arguments: Arguments) -> Result<Value, Error> {
    match name {
        "format" => return format(subject, arguments),
        "join" => {
            let [parts] = arguments.bind(name, ["iterable"])?;
            let parts = parts.ok_or_else(|| error("join() takes exactly one argument"))?;
            let mut joined = String::new();
            for (index, part) in iterate(&parts)?.iter().enumerate() {
                let part = escape(part);
                budget::take(subject.len() + part.len())?;
                if index > 0 {
                    joined.push_str(subject);
                }
                joined.push_str(&part);
            }
            return Ok(markup(joined));
        }
        "replace" | "ljust" | "rjust" | "center" => {
            // What is put in.
            if let Some(value) = arguments.positional.get_mut(1) {
                *value = Value::from(escape(value));
            }
        }
        _ => {}
    }
    str_methods::call(subject, name, arguments).map(|result| marked(&result))
}

/// What a method gives: its texts are markup.
fn marked(result: &Value) -> Value {
    match Type::of(result) {
        Type::Str => markup(text::str(result)),
        Type::List => items(result).iter().map(marked).collect(),
        Type::Tuple => {
            let parts: Vec<Value> = items(result).iter().map(marked).collect();
            Value::from(Tuple::from(parts))
        }
        _ => result.clone(),
    }
}

/// `markup.format(arguments)`. An argument is escaped before it gets its width, where markupsafe does it after.
fn format(subject: &str, arguments: Arguments) -> Result<Value, Error> {
    let mut values: Vec<Value> = arguments.positional.iter().map(format_argument).collect();
    if !arguments.keyword.is_empty() {
        let keyword = arguments.keyword.into_iter();
        let keyword = keyword.map(|(name, value)| (name, format_argument(&value)));
        values.push(Value::from(keyword.collect::<Kwargs>()));
    }
    formatted(FormatStyle::StrFormat, subject, &values).map(markup)
}
