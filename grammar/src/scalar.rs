//! Reads single values as the scalar types of protobuf, with the rules of its text format for each.
//!
//! One function a type, `Ok(None)` never: either the value or what is wrong with it. [`ValueKind::Invalid`] gives
//! [`Mismatch::Reported`], so that one unreadable value is reported once.

use std::ops::RangeInclusive;

use crate::ast::{Literal, Message, Radix, Value, ValueKind};
use crate::codes::{Code, fields};
use crate::diag::Diagnostic;

/// Why a value is not of the wanted type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Mismatch {
    /// The parser has reported the value already.
    Reported,
    /// The value is of another type.
    Type {
        /// The wanted type, with article.
        expected: String,
    },
    /// The value is a number that does not fit.
    Range {
        /// What would fit.
        expected: String,
    },
    /// The value is a string, but its bytes are no text.
    NotUtf8,
    /// The value is a list where one value is wanted.
    List,
}

impl Mismatch {
    fn of_type(value: &Value, expected: &str) -> Self {
        match value.value {
            ValueKind::Invalid => Self::Reported,
            ValueKind::List(_) => Self::List,
            _ => Self::Type {
                expected: expected.to_owned(),
            },
        }
    }

    /// The diagnostic for a value of the field (or other thing) that `what` names; none if there is one already.
    pub(crate) fn diagnose(&self, value: &Value, what: &str) -> Option<Diagnostic> {
        let at =
            |code: &'static Code, message: String| Diagnostic::error(code, value.span, message);
        Some(match self {
            Self::Reported => return None,
            Self::Type { expected } => {
                let found = value.value.describe();
                let mut diagnostic = at(
                    &fields::WRONG_TYPE,
                    format!("`{what}` takes {expected}, not {found}"),
                )
                .label(format!("expected {expected}"));
                if let Some((hint, replacement)) = self.repair(value) {
                    diagnostic = diagnostic.fix(hint, value.span, replacement);
                }
                diagnostic
            }
            Self::Range { expected } => at(
                &fields::OUT_OF_RANGE,
                format!("the number for `{what}` is out of range"),
            )
            .label(format!("expected {expected}")),
            Self::NotUtf8 => at(
                &fields::NOT_UTF8,
                format!("the string for `{what}` is not UTF-8"),
            )
            .label("its escapes produce bytes that are no text"),
            Self::List => at(
                &fields::LIST_FOR_SINGLE,
                format!("`{what}` takes a single value, not a list"),
            )
            .label("only repeated fields take a list"),
        })
    }

    /// A slip that can be repaired without knowing what was meant: quotes too few or too many.
    fn repair(&self, value: &Value) -> Option<(String, String)> {
        let Self::Type { expected } = self else {
            return None;
        };
        match &value.value {
            ValueKind::Identifier {
                negative: false,
                name,
            } if expected.starts_with(STRING) => Some((
                format!("write it in quotes: `\"{name}\"`"),
                format!("\"{name}\""),
            )),
            ValueKind::String(string) if !expected.starts_with(STRING) => {
                let text = string.as_str()?;
                let is_word = !text.is_empty()
                    && text.bytes().all(|byte| {
                        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')
                    });
                let is_number = text.parse::<f64>().is_ok();
                let is_bool = BOOL_WORDS.iter().any(|&(word, _)| word == text);
                let fits = match expected.as_str() {
                    BOOL => is_bool,
                    _ if expected.starts_with(INTEGER) => text.parse::<i128>().is_ok(),
                    FLOAT => is_number,
                    _ => !is_number && !is_bool,
                };
                (is_word && fits && !expected.contains("message"))
                    .then(|| (format!("remove the quotes: `{text}`"), text.to_owned()))
            }
            _ => None,
        }
    }
}

pub(crate) const STRING: &str = "a string";
pub(crate) const BOOL: &str = "`true` or `false`";
pub(crate) const FLOAT: &str = "a number";
pub(crate) const INTEGER: &str = "an integer";
pub(crate) const MESSAGE: &str = "a message in `{ .. }`";

const BOOL_WORDS: [(&str, bool); 6] = [
    ("true", true),
    ("false", false),
    ("True", true),
    ("False", false),
    ("t", true),
    ("f", false),
];

/// Reads a string.
pub(crate) fn string(value: &Value) -> Result<&str, Mismatch> {
    match &value.value {
        ValueKind::String(string) => string.as_str().ok_or(Mismatch::NotUtf8),
        _ => Err(Mismatch::of_type(value, STRING)),
    }
}

/// Reads a `bytes` value.
pub(crate) fn bytes(value: &Value) -> Result<&[u8], Mismatch> {
    match &value.value {
        ValueKind::String(string) => Ok(&string.bytes),
        _ => Err(Mismatch::of_type(value, STRING)),
    }
}

/// Reads a boolean: one of six words, or an integer that is 0 or 1.
pub(crate) fn boolean(value: &Value) -> Result<bool, Mismatch> {
    let read = match &value.value {
        ValueKind::Identifier {
            negative: false,
            name,
        } => BOOL_WORDS
            .iter()
            .find(|(word, _)| word == name)
            .map(|&(_, value)| value),
        ValueKind::Number(number) if !number.negative => match number.literal {
            Literal::Integer { value: 0, .. } => Some(false),
            Literal::Integer { value: 1, .. } => Some(true),
            _ => None,
        },
        _ => None,
    };
    read.ok_or_else(|| Mismatch::of_type(value, BOOL))
}

/// Reads an integer within `range`.
pub(crate) fn integer(value: &Value, range: RangeInclusive<i128>) -> Result<i128, Mismatch> {
    let out_of_range = || Mismatch::Range {
        expected: format!("{INTEGER} from {} to {}", range.start(), range.end()),
    };
    let ValueKind::Number(number) = &value.value else {
        return Err(Mismatch::of_type(value, INTEGER));
    };
    match number.literal {
        Literal::Integer {
            value: magnitude, ..
        } => {
            let signed = if number.negative {
                -i128::from(magnitude)
            } else {
                i128::from(magnitude)
            };
            if range.contains(&signed) {
                Ok(signed)
            } else {
                Err(out_of_range())
            }
        }
        Literal::HugeInteger(_) => Err(out_of_range()),
        Literal::Float(_) => Err(Mismatch::of_type(value, INTEGER)),
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
    let expected = match &value.value {
        ValueKind::Number(_) => "a decimal number",
        _ => FLOAT,
    };
    let magnitude = magnitude.ok_or_else(|| Mismatch::of_type(value, expected))?;
    Ok(if negative { -magnitude } else { magnitude })
}

/// Reads a message.
pub(crate) fn message(value: &Value) -> Result<&Message, Mismatch> {
    match &value.value {
        ValueKind::Message(message) => Ok(message),
        _ => Err(Mismatch::of_type(value, MESSAGE)),
    }
}
