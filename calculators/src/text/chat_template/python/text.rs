//! `str()` and `repr()` of a value.

use std::borrow::Cow;
use std::fmt::Write;

use minijinja::value::Value;

use super::budget;
use super::markup::is_markup;
use super::value::{DictView, Type, as_float, as_int, items, pairs};

/// `str(value)`: what a template prints.
pub(crate) fn str(value: &Value) -> Cow<'_, str> {
    match Type::of(value) {
        Type::Undefined => Cow::Borrowed(""),
        Type::Str => Cow::Borrowed(value.as_str().unwrap_or_default()),
        _ => {
            let mut out = String::new();
            write_repr(&mut out, value);
            Cow::Owned(out)
        }
    }
}

/// `repr(value)`.
pub(crate) fn repr(value: &Value) -> String {
    let mut out = String::new();
    write_repr(&mut out, value);
    out
}

fn write_repr(out: &mut String, value: &Value) {
    budget::spend(1);
    if budget::is_spent() {
        return;
    }
    match Type::of(value) {
        Type::Undefined => out.push_str("Undefined"),
        Type::None => out.push_str("None"),
        Type::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        Type::Int => out.push_str(&int(value)),
        Type::Float => out.push_str(&float(as_float(value).unwrap_or(f64::NAN))),
        Type::Str if is_markup(value) => {
            out.push_str("Markup(");
            write_quoted(out, value.as_str().unwrap_or_default());
            out.push(')');
        }
        Type::Str => write_quoted(out, value.as_str().unwrap_or_default()),
        Type::List => write_items(out, '[', &items(value), ']'),
        Type::Tuple => {
            let items = items(value);
            write_items(out, '(', &items, if items.len() == 1 { ',' } else { ')' });
            if items.len() == 1 {
                out.push(')');
            }
        }
        Type::Dict => {
            out.push('{');
            for (index, (key, value)) in pairs(value).iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_repr(out, key);
                out.push_str(": ");
                write_repr(out, value);
            }
            out.push('}');
        }
        Type::Iterable => {
            if let Some(view) = value.downcast_object_ref::<DictView>() {
                out.push_str(view.name);
                out.push('(');
                write_items(out, '[', &view.items, ']');
                out.push(')');
            } else {
                out.push_str("<generator object>");
            }
        }
        Type::Object => {
            // writing to a String cannot fail
            let _ = write!(out, "{value}");
        }
    }
}

fn int(value: &Value) -> String {
    as_int(value).map_or_else(|| value.to_string(), |int| int.to_string())
}

fn write_items(out: &mut String, open: char, items: &[Value], close: char) {
    out.push(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        write_repr(out, item);
    }
    out.push(close);
}

/// Single quotes unless the text has one and no double quote; what cannot be printed is escaped.
fn write_quoted(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    budget::spend(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            c => {
                let code = u32::from(c);
                // writing to a String cannot fail
                let _ = match code {
                    0..=0xff => write!(out, "\\x{code:02x}"),
                    0x100..=0xffff => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push(quote);
}

/// `str.isprintable` of one character. Rust's `Debug` keeps the same table; a letter in front keeps it from escaping
/// combining marks.
pub(crate) fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    !format!("{:?}", format_args!("a{c}").to_string()).contains("\\u{")
}

/// `repr(float)`: the shortest digits that read back, with an exponent from `1e16` on and below `1e-4`.
pub(crate) fn float(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let magnitude = number.abs();
    if magnitude != 0.0 && !(1e-4..1e16).contains(&magnitude) {
        let digits = format!("{number:e}");
        let (mantissa, exponent) = digits.split_once('e').unwrap_or((&digits, "0"));
        let (sign, exponent) = exponent
            .strip_prefix('-')
            .map_or(('+', exponent), |rest| ('-', rest));
        return format!("{mantissa}e{sign}{exponent:0>2}");
    }
    let mut digits = format!("{number}");
    if !digits.contains('.') {
        digits.push_str(".0");
    }
    digits
}
