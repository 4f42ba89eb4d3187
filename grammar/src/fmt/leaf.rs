//! Texts of values without parts. They come from the file, if there is one, to preserve their
//! spelling.

use std::borrow::Cow;
use std::fmt::Write;

use crate::ast::{Literal, Number, Radix, StringPiece, StringValue, Value, ValueKind};
use crate::span::Source;

/// Returns the text of a number or word.
pub(super) fn scalar<'a>(source: Option<&'a Source>, value: &'a Value) -> Cow<'a, str> {
    match &value.value {
        ValueKind::Number(number) => match source {
            Some(source) => number_as_written(&source.text()[value.span.range()], number.negative),
            None => number_of_value(*number).into(),
        },
        ValueKind::Identifier { negative, name } if *negative => format!("-{name}").into(),
        ValueKind::Identifier { name, .. } => name.as_str().into(),
        ValueKind::Message(_) | ValueKind::List(_) | ValueKind::String(_) | ValueKind::Invalid => {
            "".into()
        }
    }
}

/// Returns a number without the space between it and its sign.
fn number_as_written(written: &str, negative: bool) -> Cow<'_, str> {
    if !negative {
        return written.into();
    }
    let digits = written
        .rsplit(|c: char| c.is_ascii_whitespace() || c == '\x0b')
        .next()
        .unwrap_or(written);
    match digits.strip_prefix('-') {
        Some(_) => digits.into(),
        None => format!("-{digits}").into(),
    }
}

fn number_of_value(number: Number) -> String {
    let sign = if number.negative { "-" } else { "" };
    match number.literal {
        Literal::Integer { radix, value } => match radix {
            Radix::Octal if value == 0 => format!("{sign}00"),
            Radix::Decimal => format!("{sign}{value}"),
            Radix::Octal => format!("{sign}0{value:o}"),
            Radix::Hexadecimal => format!("{sign}0x{value:x}"),
        },
        Literal::HugeInteger(value) => format!("{sign}{value:.0}"),
        // The format has no literal for infinite values except one that overflows.
        Literal::Float(value) if value.is_infinite() => format!("{sign}1e999"),
        Literal::Float(value) => format!("{sign}{value:?}"),
    }
}

/// Returns one literal of a string, in double quotes unless it contains some.
pub(super) fn piece<'a>(source: &'a Source, piece: &StringPiece) -> Cow<'a, str> {
    let written = &source.text()[piece.span.range()];
    let content = &written[1..written.len() - 1];
    if written.starts_with('"') || content.contains('"') {
        written.into()
    } else {
        format!("\"{content}\"").into()
    }
}

/// Returns the bytes of a string as one literal.
pub(super) fn quoted(string: &StringValue) -> String {
    let mut text = String::with_capacity(string.bytes.len() + 2);
    text.push('"');
    for chunk in string.bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                '"' => text.push_str("\\\""),
                '\\' => text.push_str("\\\\"),
                // Three digits, so that a following digit is not read as part of the escape.
                c if c.is_ascii_control() => _ = write!(text, "\\{:03o}", c as u32),
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            _ = write!(text, "\\{byte:03o}");
        }
    }
    text.push('"');
    text
}
