//! Python's `str()` and `repr()` of a value.

use std::borrow::Cow;
use std::fmt::Write;

use minijinja::Error;
use minijinja::value::Value;

use super::budget;
use super::value::{Type, as_float, items, pairs};

/// Evaluates `str(value)` within the budget of the rendering.
pub(super) fn weighed(value: &Value) -> Result<Cow<'_, str>, Error> {
    if value.as_str().is_none() {
        budget::weigh(value)?;
    }
    Ok(match Type::from_value(value) {
        Type::Undefined => Cow::Borrowed(""),
        Type::Str => Cow::Borrowed(value.as_str().unwrap_or_default()),
        _ => Cow::Owned(repr(value)),
    })
}

/// Evaluates `repr(value)`.
pub(super) fn repr(value: &Value) -> String {
    let mut out = String::new();
    write_repr(&mut out, value);
    out
}

fn write_repr(out: &mut String, value: &Value) {
    match Type::from_value(value) {
        Type::Undefined => out.push_str("Undefined"),
        Type::Float => out.push_str(&float(as_float(value).unwrap_or(f64::NAN))),
        Type::Str => write_quoted(out, value.as_str().unwrap_or_default()),
        Type::List | Type::Iterable => write_items(out, "[", &items(value), "]"),
        Type::Tuple if value.len() == Some(1) => write_items(out, "(", &items(value), ",)"),
        Type::Tuple => write_items(out, "(", &items(value), ")"),
        Type::Dict => {
            out.push('{');
            for (index, (key, value)) in pairs(value).iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_repr(out, key);
                out.push_str(": ");
                write_repr(out, value);
            }
            out.push('}');
        }
        Type::None | Type::Bool | Type::Int | Type::Object => {
            // Writing to a string cannot fail.
            let _ = write!(out, "{value}");
        }
    }
}

fn write_items(out: &mut String, open: &str, items: &[Value], close: &str) {
    out.push_str(open);
    for (index, item) in items.iter().enumerate() {
        out.push_str(if index > 0 { ", " } else { "" });
        write_repr(out, item);
    }
    out.push_str(close);
}

/// Writes a text in single quotes, or in double quotes if it has only single ones. Characters that
/// cannot be printed are escaped.
fn write_quoted(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for c in text.chars() {
        // Writing to a string cannot fail.
        let _ = match (c, u32::from(c)) {
            ('\\', _) => out.write_str("\\\\"),
            ('\n', _) => out.write_str("\\n"),
            ('\r', _) => out.write_str("\\r"),
            ('\t', _) => out.write_str("\\t"),
            (c, _) if c == quote => write!(out, "\\{c}"),
            (c, _) if is_printable(c) => out.write_char(c),
            (_, code @ 0..=0xff) => write!(out, "\\x{code:02x}"),
            (_, code @ 0x100..=0xffff) => write!(out, "\\u{code:04x}"),
            (_, code) => write!(out, "\\U{code:08x}"),
        };
    }
    out.push(quote);
}

/// Evaluates `str.isprintable` for one character. Rust's `Debug` has the same table; a letter in
/// front keeps it from escaping combining marks.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    !format!("{:?}", format_args!("a{c}").to_string()).contains("\\u{")
}

/// Evaluates `repr(float)`: the shortest digits that read back, with an exponent from `1e16` on and
/// below `1e-4`.
pub(super) fn float(number: f64) -> String {
    let magnitude = number.abs();
    if number.is_nan() || magnitude.is_infinite() {
        return number.to_string().to_lowercase();
    }
    if magnitude != 0.0 && !(1e-4..1e16).contains(&magnitude) {
        let digits = format!("{number:e}");
        let (mantissa, exponent) = digits.split_once('e').unwrap_or((&digits, "0"));
        let (sign, exponent) = exponent
            .strip_prefix('-')
            .map_or(('+', exponent), |rest| ('-', rest));
        return format!("{mantissa}e{sign}{exponent:0>2}");
    }
    format!("{number:?}")
}
