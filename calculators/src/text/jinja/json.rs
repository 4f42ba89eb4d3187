//! `json.dumps` and `json.loads`.

use std::fmt::Write;

use minijinja::Error;
use minijinja::value::Value;

use super::budget;
use super::text;
use super::value::{Type, as_float, error, items, pairs};

/// How `json.dumps` lays its text out.
#[derive(Debug)]
pub(super) struct Layout {
    /// What one level is indented by; `None` keeps everything on one line.
    pub(super) indent: Option<String>,
    pub(super) item_separator: String,
    pub(super) key_separator: String,
    pub(super) ascii: bool,
    pub(super) sort_keys: bool,
}

/// `json.dumps(value)`.
pub(super) fn dump(value: &Value, layout: &Layout) -> Result<String, Error> {
    budget::weigh(value)?;
    let mut out = String::new();
    write_value(&mut out, value, layout, 0)?;
    budget::take(out.len())?;
    Ok(out)
}

fn write_value(
    out: &mut String,
    value: &Value,
    layout: &Layout,
    depth: usize,
) -> Result<(), Error> {
    match Type::of(value) {
        Type::Str => write_string(out, value.as_str().unwrap_or_default(), layout.ascii),
        Type::List | Type::Tuple => {
            write_container(out, layout, depth, ['[', ']'], items(value), write_value)?
        }
        Type::Dict => {
            let mut entries = Vec::new();
            for (key, value) in pairs(value) {
                let name = key
                    .as_str()
                    .map_or_else(|| scalar(&key), |name| Ok(name.to_owned()))?;
                entries.push((name, value));
            }
            if layout.sort_keys {
                entries.sort_by(|a, b| a.0.cmp(&b.0));
            }
            write_container(
                out,
                layout,
                depth,
                ['{', '}'],
                entries,
                |out, (key, value), layout, depth| {
                    write_string(out, key, layout.ascii);
                    out.push_str(&layout.key_separator);
                    write_value(out, value, layout, depth)
                },
            )?;
        }
        _ => out.push_str(&scalar(value)?),
    }
    Ok(())
}

fn write_container<T>(
    out: &mut String,
    layout: &Layout,
    depth: usize,
    [open, close]: [char; 2],
    elements: Vec<T>,
    write: impl Fn(&mut String, &T, &Layout, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let new_line = |out: &mut String, depth: usize| {
        let Some(indent) = &layout.indent else {
            return Ok::<(), Error>(());
        };
        budget::take(1 + indent.len() * depth)?;
        out.push('\n');
        out.extend(std::iter::repeat_n(indent.as_str(), depth));
        Ok(())
    };
    out.push(open);
    for (index, element) in elements.iter().enumerate() {
        let separator = if index > 0 {
            &layout.item_separator
        } else {
            ""
        };
        budget::take(separator.len() + layout.key_separator.len())?;
        out.push_str(separator);
        new_line(out, depth + 1)?;
        write(out, element, layout, depth + 1)?;
    }
    if !elements.is_empty() {
        new_line(out, depth)?;
    }
    out.push(close);
    Ok(())
}

/// A number, a boolean or null.
fn scalar(value: &Value) -> Result<String, Error> {
    match Type::of(value) {
        Type::None => Ok("null".to_owned()),
        Type::Bool => Ok(value.is_true().to_string()),
        Type::Int => Ok(value.to_string()),
        Type::Float => Ok(match as_float(value).unwrap_or(f64::NAN) {
            number if number.is_nan() => "NaN".to_owned(),
            f64::INFINITY => "Infinity".to_owned(),
            f64::NEG_INFINITY => "-Infinity".to_owned(),
            number => text::float(number),
        }),
        other => Err(error(format!(
            "Object of type {} is not JSON serializable",
            other.name()
        ))),
    }
}

fn write_string(out: &mut String, text: &str, ascii: bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            c if c < ' ' || (ascii && !(' '..='~').contains(&c)) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // writing to a String cannot fail
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// `json.loads(text)`.
pub(super) fn load(text: &str) -> Result<Value, Error> {
    // A number, a comma and an item for it.
    budget::spend_items(text.len() / 2);
    budget::check()?;
    let parsed = serde_json::from_str::<serde_json::Value>(text);
    parsed
        .map(|value| from_json(&value))
        .map_err(|cause| error(format!("invalid JSON: {cause}")))
}

/// A JSON value as a template sees it; the order of keys stays.
pub(crate) fn from_json(value: &serde_json::Value) -> Value {
    match value {
        serde_json::Value::Null => Value::from(()),
        serde_json::Value::Bool(flag) => Value::from(*flag),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(int), _) => Value::from(int),
            (None, Some(int)) => Value::from(int),
            (None, None) => Value::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => Value::from(text.as_str()),
        serde_json::Value::Array(items) => items.iter().map(from_json).collect::<Vec<_>>().into(),
        serde_json::Value::Object(entries) => Value::from_pairs(
            entries
                .iter()
                .map(|(key, value)| (key.as_str(), from_json(value))),
        ),
    }
}

/// About as many bytes as a value takes as JSON.
pub(crate) fn bytes(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => 4,
        serde_json::Value::String(text) => 2 + text.len(),
        serde_json::Value::Array(items) => items.iter().map(|item| 1 + bytes(item)).sum(),
        serde_json::Value::Object(entries) => {
            let entry = |(key, value): (&String, _)| 4 + key.len() + bytes(value);
            entries.iter().map(entry).sum()
        }
    }
}
