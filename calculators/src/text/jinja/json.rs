//! Python's `json.dumps` and `json.loads`.

use minijinja::Error;
use minijinja::value::{Serde, Value};

use super::budget;
use super::text;
use super::value::{Type, as_float, error, items, pairs};

/// The layout of `json.dumps`.
#[derive(Debug)]
pub(super) struct JsonLayout {
    /// Indentation of one level; `None` keeps everything on one line.
    pub(super) indent: Option<String>,
    pub(super) item_separator: String,
    pub(super) key_separator: String,
    pub(super) ascii: bool,
    pub(super) sort_keys: bool,
}

/// Writes a value as Python's `json.dumps` does.
pub(super) fn dump(value: &Value, layout: &JsonLayout) -> Result<String, Error> {
    budget::weigh(value)?;
    let mut out = String::new();
    write_value(&mut out, value, layout, 0)?;
    budget::take(out.len())?;
    Ok(out)
}

fn write_value(
    out: &mut String,
    value: &Value,
    layout: &JsonLayout,
    depth: usize,
) -> Result<(), Error> {
    let mut entries: Vec<(Option<String>, Value)> = Vec::new();
    let (open, close) = match Type::from_value(value) {
        Type::Str => {
            write_string(out, value.as_str().unwrap_or_default(), layout.ascii);
            return Ok(());
        }
        Type::List | Type::Tuple => {
            entries.extend(items(value).into_iter().map(|item| (None, item)));
            ('[', ']')
        }
        Type::Dict => {
            for (key, value) in pairs(value) {
                let name = key.as_str().map(str::to_owned);
                entries.push((Some(name.map_or_else(|| scalar(&key), Ok)?), value));
            }
            if layout.sort_keys {
                entries.sort_by(|a, b| a.0.cmp(&b.0));
            }
            ('{', '}')
        }
        _ => {
            out.push_str(&scalar(value)?);
            return Ok(());
        }
    };
    let indent = layout.indent.as_deref().filter(|_| !entries.is_empty());
    let width = indent.unwrap_or_default().len() * (depth + 1);
    let each = width + layout.item_separator.len() + layout.key_separator.len();
    budget::take(each.saturating_mul(entries.len()))?;
    let line = |depth| {
        indent.map_or_else(String::new, |indent| {
            "\n".to_owned() + &indent.repeat(depth)
        })
    };
    let inner = line(depth + 1);
    out.push(open);
    for (index, (key, value)) in entries.iter().enumerate() {
        if index > 0 {
            out.push_str(&layout.item_separator);
        }
        out.push_str(&inner);
        if let Some(key) = key {
            write_string(out, key, layout.ascii);
            out.push_str(&layout.key_separator);
        }
        write_value(out, value, layout, depth + 1)?;
    }
    out.push_str(&line(depth));
    out.push(close);
    Ok(())
}

/// Writes a number, a boolean or null.
fn scalar(value: &Value) -> Result<String, Error> {
    Ok(match Type::from_value(value) {
        Type::None => "null".to_owned(),
        Type::Bool => value.is_true().to_string(),
        Type::Int => value.to_string(),
        Type::Float => match as_float(value).unwrap_or(f64::NAN) {
            f64::INFINITY => "Infinity".to_owned(),
            f64::NEG_INFINITY => "-Infinity".to_owned(),
            number if number.is_nan() => "NaN".to_owned(),
            number => text::float(number),
        },
        other => {
            return Err(error(format!(
                "Object of type {other} is not JSON serializable"
            )));
        }
    })
}

fn write_string(out: &mut String, text: &str, ascii: bool) {
    let quoted = serde_json::to_string(text).unwrap_or_default();
    if !ascii {
        return out.push_str(&quoted);
    }
    for c in quoted.chars() {
        match c {
            ' '..='~' => out.push(c),
            c => {
                let mut units = [0; 2];
                let units = c.encode_utf16(&mut units).iter();
                out.extend(units.map(|unit| format!("\\u{unit:04x}")));
            }
        }
    }
}

/// Reads a value as Python's `json.loads` does.
pub(super) fn load(text: &str) -> Result<Value, Error> {
    // There is at most one item for two bytes, a digit and a comma.
    budget::spend_items(text.len() / 2);
    budget::check()?;
    let parsed = serde_json::from_str::<serde_json::Value>(text).map(Serde);
    parsed
        .map(Value::from)
        .map_err(|cause| error(format!("invalid JSON: {cause}")))
}

/// Returns the approximate size of a value as JSON, in bytes.
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
