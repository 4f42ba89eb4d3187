//! What a field takes: checked, told of, and refused.

use std::fmt;

use graphmill_engine::Result;
use serde_json::Value;

use super::MOST;
use crate::http::fields::{
    at_most, code, invalid, unsupported, whole, written, wrong_kind, wrong_type,
};
use crate::payload::{JsonBody, json::Given};

/// What a field takes. `null` is always the same as no field.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// `true` or `false`.
    Boolean,
    /// A number between two others, or equal to one of them.
    Number(f64, f64),
    /// A number above this one.
    Above(f64),
    /// A whole number between two others, or equal to one of them.
    Integer(i64, i64),
    /// A whole number that is at least this, or -1, which is no limit.
    Limit(i64),
    /// Any text.
    Text,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// An object, of which the node that reads it knows more.
    Object,
    /// An array of at most so many entries, likewise.
    Array(usize),
    /// One of these values, written in JSON, which ask for nothing but what is done anyway. Any
    /// other asks for what cannot be done.
    Only(&'static [&'static str]),
    /// Described by these words; checked by the code that reads the field.
    Own(&'static str),
}

/// Whether a field's text is longer than any that the table itself can compare it with.
pub(super) fn is_long(given: Given<'_>) -> bool {
    matches!(given, Given::Text(text) if text.len() > 256)
}

impl Form {
    /// Checks a field that is there.
    pub(super) fn check(self, name: &str, body: &JsonBody) -> Result<()> {
        let Some(given) = body.given(name) else {
            return Ok(());
        };
        let typed = |is: bool, expected: &str| match (is, compound(given)) {
            (true, _) => Ok(()),
            (false, Some(kind)) => Err(wrong_kind(name, expected, kind)),
            (false, None) => match body.get(name)? {
                Some(value) => Err(wrong_type(name, expected, value)),
                None => Ok(()),
            },
        };
        let kind = compound(given);
        match self {
            Self::Own(_) => return Ok(()),
            Self::Text => return typed(kind == Some(STRING), STRING),
            Self::Object => return typed(kind == Some(OBJECT), OBJECT),
            Self::Array(_) => typed(kind == Some(ARRAY), ARRAY)?,
            Self::OneOf(_) => typed(kind == Some(STRING), STRING)?,
            Self::Boolean => typed(kind.is_none(), "a boolean")?,
            Self::Integer(..) | Self::Limit(_) => typed(kind.is_none(), "an integer")?,
            Self::Number(..) | Self::Above(_) => typed(kind.is_none(), "a number")?,
            Self::Only(_) if is_long(given) => {
                let message = "is not supported with a value of this length";
                return Err(invalid(name, message).with_code(code::UNSUPPORTED));
            }
            Self::Only(_) => {}
        }
        let Some(value) = body.get(name)? else {
            return Ok(());
        };
        let within = |is: bool| {
            if is {
                Ok(())
            } else {
                let value = written(value);
                Err(invalid(name, format!("must be {self}, not {value}")))
            }
        };
        match self {
            Self::Boolean => typed(value.is_boolean(), "a boolean"),
            Self::Text | Self::Object | Self::Own(_) => Ok(()),
            Self::Array(most) => {
                let count = value.as_array().map_or(0, Vec::len);
                at_most(name, count, most, "entries")
            }
            Self::Number(least, most) => {
                typed(value.is_number(), "a number")?;
                within(
                    value
                        .as_f64()
                        .is_some_and(|number| (least..=most).contains(&number)),
                )
            }
            Self::Above(bound) => {
                typed(value.is_number(), "a number")?;
                within(value.as_f64().is_some_and(|number| number > bound))
            }
            Self::Integer(least, most) => {
                typed(is_whole(value), "an integer")?;
                not_above(name, value, most)?;
                within(whole(value).is_some_and(|number| number >= least))
            }
            Self::Limit(least) => {
                typed(is_whole(value), "an integer")?;
                not_above(name, value, MOST)?;
                within(whole(value).is_some_and(|number| number == -1 || number >= least))
            }
            Self::OneOf(texts) => within(value.as_str().is_some_and(|text| texts.contains(&text))),
            Self::Only(values) => {
                let same =
                    |text: &&str| serde_json::from_str(text).is_ok_and(|only| equal(&only, value));
                if values.iter().any(same) {
                    Ok(())
                } else {
                    Err(unsupported(name, value))
                }
            }
        }
    }

    /// Values that have not this form, with the code of their refusal.
    pub(super) fn refuses(self) -> Vec<(Value, &'static str)> {
        const TYPE: &str = "invalid_type";
        const VALUE: &str = "invalid_value";
        match self {
            Self::Boolean => vec![("true".into(), TYPE), (1.into(), TYPE)],
            Self::Text => vec![(5.into(), TYPE), (Value::Array(vec!["a".into()]), TYPE)],
            Self::Object => vec![("{}".into(), TYPE), (Value::Array(Vec::new()), TYPE)],
            Self::Array(_) => vec![("a".into(), TYPE), (1.into(), TYPE)],
            Self::Number(least, most) => {
                let mut refused = vec![("1".into(), TYPE), ((least - 0.5).into(), VALUE)];
                if most.is_finite() {
                    refused.push(((most + 0.5).into(), VALUE));
                }
                refused
            }
            Self::Above(bound) => vec![
                ("1".into(), TYPE),
                (bound.into(), VALUE),
                ((bound - 1.0).into(), VALUE),
            ],
            Self::Integer(least, most) => {
                let mut refused = vec![("1".into(), TYPE), (1.5.into(), TYPE)];
                refused.extend(least.checked_sub(1).map(|below| (below.into(), VALUE)));
                refused.extend(most.checked_add(1).map(|above| (above.into(), VALUE)));
                refused
            }
            Self::Limit(least) => vec![
                ("1".into(), TYPE),
                (1.5.into(), TYPE),
                ((least - 1).min(-2).into(), VALUE),
                ((MOST + 1).into(), VALUE),
            ],
            Self::OneOf(_) => vec![("something".into(), VALUE), (5.into(), TYPE)],
            Self::Only(_) => vec![("something".into(), "unsupported_parameter")],
            Self::Own(_) => Vec::new(),
        }
    }
}

const STRING: &str = "a string";
const ARRAY: &str = "an array";
const OBJECT: &str = "an object";

/// What a field is whose value may be long; none for the others. No value is made of it.
fn compound(given: Given<'_>) -> Option<&'static str> {
    match given {
        Given::Text([b'"', ..]) | Given::Value(Value::String(_)) => Some(STRING),
        Given::Text([b'[', ..]) | Given::Value(Value::Array(_)) => Some(ARRAY),
        Given::Text([b'{', ..]) | Given::Value(Value::Object(_)) => Some(OBJECT),
        _ => None,
    }
}

/// Whether a number has no fraction, however large it is.
fn is_whole(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

/// Refuses a whole number that is larger than the largest, which the form has no words for where it
/// is only what a number can be.
fn not_above(name: &str, value: &Value, most: i64) -> Result<()> {
    let is_above = match whole(value) {
        Some(number) => number > most,
        None => value.as_f64().is_some_and(|number| number > 0.0),
    };
    if !is_above {
        return Ok(());
    }
    let value = written(value);
    Err(invalid(
        name,
        format!("must be at most {most}, not {value}"),
    ))
}

/// Equal, where 1 and 1.0 are.
fn equal(left: &Value, right: &Value) -> bool {
    left == right || (left.is_number() && left.as_f64() == right.as_f64())
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |values: &[&str]| {
            values
                .iter()
                .map(|value| format!("`{value}`"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        match *self {
            Self::Boolean => f.write_str("a boolean"),
            Self::Text => f.write_str("a string"),
            Self::Object => f.write_str("an object"),
            Self::Array(most) => write!(f, "an array of at most {most}"),
            Self::Number(least, f64::INFINITY) => write!(f, "a number of at least {least}"),
            Self::Number(least, most) => write!(f, "between {least} and {most}"),
            Self::Above(bound) => write!(f, "above {bound}"),
            Self::Integer(least, MOST | i64::MAX) => write!(f, "an integer of at least {least}"),
            Self::Integer(least, most) => write!(f, "an integer between {least} and {most}"),
            Self::Limit(least) => write!(
                f,
                "an integer of at least {least}, or -1, which is no limit"
            ),
            Self::OneOf(texts) => write!(f, "one of {}", list(texts)),
            Self::Only([]) => f.write_str("not supported"),
            Self::Only(values) => write!(f, "only {}", list(values)),
            Self::Own(words) => f.write_str(words),
        }
    }
}
