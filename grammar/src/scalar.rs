//! Reading of single values as protobuf's scalar types, with the rules of its text format.
//!
//! There is one function per type. It returns the value or the mismatch. [`ValueKind::Invalid`]
//! leads to [`Mismatch::Reported`], so that an unreadable value is reported only once.

use std::fmt;
use std::ops::RangeInclusive;

use crate::ast::{Literal, Message, Radix, Value, ValueKind};
use crate::codes::{Code, fields};
use crate::diag::Diagnostic;

/// The reason why a value does not have the wanted type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Mismatch {
    /// The parser has already reported the value.
    Reported,
    /// The value has another type.
    Type(WantedType),
    /// The value is a number outside this range, which is allowed.
    Range(RangeInclusive<i128>),
    /// The value is a string, but its bytes are not text.
    NotUtf8,
    /// The value is a list, but a single value is wanted.
    List,
}

impl Mismatch {
    fn from_value(value: &Value, wanted: WantedType) -> Self {
        match value.value {
            ValueKind::Invalid => Self::Reported,
            ValueKind::List(_) => Self::List,
            _ => Self::Type(wanted),
        }
    }

    /// Makes the diagnostic for a value of the field, or other element, named `what`. `None` if the
    /// value has been reported already.
    pub(crate) fn diagnose(&self, value: &Value, what: &str) -> Option<Diagnostic> {
        let at =
            |code: &'static Code, message: String| Diagnostic::error(code, value.span, message);
        Some(match self {
            Self::Reported => return None,
            Self::Type(wanted) => {
                let found = value.value.describe();
                let diagnostic = at(
                    &fields::WRONG_TYPE,
                    format!("`{what}` takes {wanted}, not {found}"),
                )
                .label(format!("expected {wanted}"));
                match wanted.repair(value) {
                    Some((hint, replacement)) => diagnostic.fix(hint, value.span, replacement),
                    None => diagnostic,
                }
            }
            Self::Range(allowed) => at(
                &fields::OUT_OF_RANGE,
                format!("the number for `{what}` is out of range"),
            )
            .label(format!(
                "expected an integer from {} to {}",
                allowed.start(),
                allowed.end()
            )),
            Self::NotUtf8 => at(
                &fields::NOT_UTF8,
                format!("the string for `{what}` is not UTF-8"),
            )
            .label("its escapes produce bytes that are not text"),
            Self::List => at(
                &fields::LIST_FOR_SINGLE,
                format!("`{what}` takes a single value, not a list"),
            )
            .label("only repeated fields take a list"),
        })
    }
}

/// The wanted type of a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WantedType {
    String,
    Bool,
    Integer,
    Float,
    /// A decimal number, in the place of an octal or hexadecimal one.
    Decimal,
    Message,
    /// The expectation of a `Deserialize` implementation.
    Other(String),
}

impl fmt::Display for WantedType {
    /// Writes the type with its article.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::String => "a string",
            Self::Bool => "`true` or `false`",
            Self::Integer => "an integer",
            Self::Float => "a number",
            Self::Decimal => "a decimal number",
            Self::Message => "a message in `{ .. }`",
            Self::Other(expected) => expected,
        })
    }
}

impl WantedType {
    /// Suggests a repair for mistakes whose intention is clear: missing or additional quotes, `yes`
    /// for `true`. Returns the advice and the new text.
    fn repair(&self, value: &Value) -> Option<(String, String)> {
        if let Some(word) = value.value.as_word() {
            let meant = match (self, word.to_ascii_lowercase().as_str()) {
                (Self::String, _) => {
                    let quoted = format!("\"{word}\"");
                    return Some((format!("write it in quotes: `{quoted}`"), quoted));
                }
                (Self::Bool, "yes" | "on" | "true") => "true",
                (Self::Bool, "no" | "off" | "false") => "false",
                _ => return None,
            };
            return Some((format!("write `{meant}`"), meant.to_owned()));
        }
        let text = string(value).ok()?;
        let is_quoted = match self {
            Self::Bool => BOOL_WORDS.iter().any(|&(word, _)| word == text),
            Self::Integer => text.parse::<i64>().is_ok(),
            Self::Float => text.parse::<f64>().is_ok(),
            _ => false,
        };
        is_quoted.then(|| (format!("remove the quotes: `{text}`"), text.to_owned()))
    }
}

const BOOL_WORDS: [(&str, bool); 6] = [
    ("true", true),
    ("false", false),
    ("True", true),
    ("False", false),
    ("t", true),
    ("f", false),
];

/// Reads a string that is valid UTF-8.
pub(crate) fn string(value: &Value) -> Result<&str, Mismatch> {
    match &value.value {
        ValueKind::String(string) => string.as_str().ok_or(Mismatch::NotUtf8),
        _ => Err(Mismatch::from_value(value, WantedType::String)),
    }
}

/// Reads a value of type `bytes`.
pub(crate) fn bytes(value: &Value) -> Result<&[u8], Mismatch> {
    match &value.value {
        ValueKind::String(string) => Ok(&string.bytes),
        _ => Err(Mismatch::from_value(value, WantedType::String)),
    }
}

/// Reads a boolean: one of six words, or the integer 0 or 1.
pub(crate) fn boolean(value: &Value) -> Result<bool, Mismatch> {
    let read = match &value.value {
        ValueKind::Number(number) if !number.negative => match number.literal {
            Literal::Integer { value: 0, .. } => Some(false),
            Literal::Integer { value: 1, .. } => Some(true),
            _ => None,
        },
        other => {
            let known = |(word, _): &&(&str, bool)| other.as_word() == Some(*word);
            BOOL_WORDS.iter().find(known).map(|&(_, value)| value)
        }
    };
    read.ok_or_else(|| Mismatch::from_value(value, WantedType::Bool))
}

/// Reads an integer within `range`.
pub(crate) fn integer(value: &Value, range: RangeInclusive<i128>) -> Result<i128, Mismatch> {
    let ValueKind::Number(number) = &value.value else {
        return Err(Mismatch::from_value(value, WantedType::Integer));
    };
    match number.literal {
        Literal::Integer { value, .. } => {
            let sign = if number.negative { -1 } else { 1 };
            let signed = sign * i128::from(value);
            // An unsigned field allows no sign, not even before a zero.
            let takes_sign = *range.start() < 0 || !number.negative;
            if takes_sign && range.contains(&signed) {
                Ok(signed)
            } else {
                Err(Mismatch::Range(range))
            }
        }
        Literal::HugeInteger(_) => Err(Mismatch::Range(range)),
        Literal::Float(_) => Err(Mismatch::from_value(value, WantedType::Integer)),
    }
}

/// Reads a floating-point number: a decimal number, `inf`, `infinity` or `nan` in any case.
pub(crate) fn float(value: &Value) -> Result<f64, Mismatch> {
    let (negative, magnitude) = match &value.value {
        ValueKind::Number(number) => {
            let magnitude = match number.literal {
                Literal::Integer {
                    radix: Radix::Decimal,
                    value,
                } => Some(value as f64),
                Literal::Integer { .. } => None,
                Literal::HugeInteger(value) | Literal::Float(value) => Some(value),
            };
            (number.negative, magnitude)
        }
        ValueKind::Identifier { negative, name } => {
            let is = |word: &str| name.eq_ignore_ascii_case(word);
            let magnitude = if is("inf") || is("infinity") {
                Some(f64::INFINITY)
            } else {
                is("nan").then_some(f64::NAN)
            };
            (*negative, magnitude)
        }
        _ => (false, None),
    };
    let wanted = match &value.value {
        ValueKind::Number(_) => WantedType::Decimal,
        _ => WantedType::Float,
    };
    let magnitude = magnitude.ok_or_else(|| Mismatch::from_value(value, wanted))?;
    Ok(if negative { -magnitude } else { magnitude })
}

/// Reads a message in delimiters.
pub(crate) fn message(value: &Value) -> Result<&Message, Mismatch> {
    match &value.value {
        ValueKind::Message(message) => Ok(message),
        _ => Err(Mismatch::from_value(value, WantedType::Message)),
    }
}
