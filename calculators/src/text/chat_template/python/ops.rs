//! Python's operators.

use std::cmp::Ordering;

use minijinja::Error;
use minijinja::formatting::{FormatStyle, format};
use minijinja::value::{Tuple, Value};

use super::budget;
use super::markup::{self, is_markup};
use super::text;
use super::value::{
    Type, as_float, as_int, compare, contains, error, from_int, items, undefined_error,
};

/// Sizes a template can reach by repeating a string or a list; more is taken for an attack.
const MAX_REPEATED_LEN: usize = 10_000_000;

fn unsupported(operator: &str, a: &Value, b: &Value) -> Error {
    match (Type::of(a), Type::of(b)) {
        (Type::Undefined, _) | (_, Type::Undefined) => {
            undefined_error(format!("an undefined value is used with `{operator}`"))
        }
        (left, right) => error(format!(
            "unsupported operand type(s) for {operator}: '{}' and '{}'",
            left.name(),
            right.name()
        )),
    }
}

fn overflow(operator: &str) -> Error {
    error(format!("integer too large in `{operator}`"))
}

fn zero_division() -> Error {
    error("division by zero")
}

/// Both as integers, or else both as floats.
enum Numbers {
    Ints(i128, i128),
    Floats(f64, f64),
}

fn numbers(operator: &str, a: &Value, b: &Value) -> Result<Numbers, Error> {
    if let (Some(a), Some(b)) = (as_int(a), as_int(b)) {
        return Ok(Numbers::Ints(a, b));
    }
    match (as_float(a), as_float(b)) {
        (Some(a), Some(b)) => Ok(Numbers::Floats(a, b)),
        _ => Err(unsupported(operator, a, b)),
    }
}

pub(crate) fn add(a: &Value, b: &Value) -> Result<Value, Error> {
    match (Type::of(a), Type::of(b)) {
        (Type::Str, Type::Str) if is_markup(a) || is_markup(b) => {
            let parts = [markup::escape(a), markup::escape(b)];
            budget::take(parts[0].len() + parts[1].len())?;
            Ok(markup::markup(parts.concat()))
        }
        (Type::Str, Type::Str) => concat(a, b),
        (Type::List, Type::List) => Ok(Value::from([items(a), items(b)].concat())),
        (Type::Tuple, Type::Tuple) => Ok(Value::from(Tuple::from([items(a), items(b)].concat()))),
        (Type::Undefined, _) | (_, Type::Undefined) => Err(unsupported("+", a, b)),
        (kind @ (Type::Str | Type::List | Type::Tuple), other) => Err(error(format!(
            "can only concatenate {} (not \"{}\") to {0}",
            kind.name(),
            other.name()
        ))),
        _ => match numbers("+", a, b)? {
            Numbers::Ints(a, b) => a.checked_add(b).map(from_int).ok_or_else(|| overflow("+")),
            Numbers::Floats(a, b) => Ok(Value::from(a + b)),
        },
    }
}

pub(crate) fn subtract(a: &Value, b: &Value) -> Result<Value, Error> {
    match numbers("-", a, b)? {
        Numbers::Ints(a, b) => a.checked_sub(b).map(from_int).ok_or_else(|| overflow("-")),
        Numbers::Floats(a, b) => Ok(Value::from(a - b)),
    }
}

pub(crate) fn multiply(a: &Value, b: &Value) -> Result<Value, Error> {
    match (Type::of(a), Type::of(b)) {
        (Type::Str | Type::List | Type::Tuple, Type::Int | Type::Bool) => repeat(a, b),
        (Type::Int | Type::Bool, Type::Str | Type::List | Type::Tuple) => repeat(b, a),
        _ => match numbers("*", a, b)? {
            Numbers::Ints(a, b) => a.checked_mul(b).map(from_int).ok_or_else(|| overflow("*")),
            Numbers::Floats(a, b) => Ok(Value::from(a * b)),
        },
    }
}

fn repeat(value: &Value, times: &Value) -> Result<Value, Error> {
    let times = usize::try_from(as_int(times).unwrap_or(0).max(0)).unwrap_or(usize::MAX);
    let len = value
        .as_str()
        .map_or_else(|| value.len().unwrap_or(0), str::len);
    let size = if value.as_str().is_some() {
        1
    } else {
        size_of::<Value>()
    };
    if len
        .checked_mul(times)
        .is_none_or(|len| len > MAX_REPEATED_LEN)
    {
        return Err(error("the repeated value is too large"));
    }
    budget::take(len * times * size)?;
    if let Some(text) = value.as_str() {
        return Ok(markup::like(value, text.repeat(times)));
    }
    let elements = items(value);
    let repeated: Vec<Value> = std::iter::repeat_n(&elements, times)
        .flatten()
        .cloned()
        .collect();
    Ok(if value.is_tuple() {
        Value::from(Tuple::from(repeated))
    } else {
        Value::from(repeated)
    })
}

pub(crate) fn divide(a: &Value, b: &Value) -> Result<Value, Error> {
    let (a, b) = match numbers("/", a, b)? {
        Numbers::Ints(a, b) => (a as f64, b as f64),
        Numbers::Floats(a, b) => (a, b),
    };
    if b == 0.0 {
        Err(zero_division())
    } else {
        Ok(Value::from(a / b))
    }
}

pub(crate) fn floor_divide(a: &Value, b: &Value) -> Result<Value, Error> {
    match numbers("//", a, b)? {
        Numbers::Ints(_, 0) | Numbers::Floats(_, 0.0) => Err(zero_division()),
        Numbers::Ints(a, b) => {
            let quotient = a.checked_div(b).ok_or_else(|| overflow("//"))?;
            let floored = if a % b != 0 && (a < 0) != (b < 0) {
                quotient - 1
            } else {
                quotient
            };
            Ok(from_int(floored))
        }
        Numbers::Floats(a, b) => Ok(Value::from((a / b).floor())),
    }
}

pub(crate) fn remainder(a: &Value, b: &Value) -> Result<Value, Error> {
    if let Some(pattern) = a.as_str() {
        let arguments = if Type::of(b) == Type::Tuple {
            items(b)
        } else {
            vec![b.clone()]
        };
        return printf(a, pattern, &arguments);
    }
    match numbers("%", a, b)? {
        Numbers::Ints(_, 0) | Numbers::Floats(_, 0.0) => Err(zero_division()),
        Numbers::Ints(a, b) => {
            let rest = a.checked_rem(b).unwrap_or(0);
            Ok(from_int(if rest != 0 && (rest < 0) != (b < 0) {
                rest + b
            } else {
                rest
            }))
        }
        Numbers::Floats(a, b) => {
            let rest = a % b;
            Ok(Value::from(if rest != 0.0 && (rest < 0.0) != (b < 0.0) {
                rest + b
            } else {
                rest
            }))
        }
    }
}

/// `pattern % arguments`; markup if `like` is.
pub(crate) fn printf(like: &Value, pattern: &str, arguments: &[Value]) -> Result<Value, Error> {
    let arguments = if is_markup(like) {
        arguments.iter().map(markup::format_argument).collect()
    } else {
        printable(arguments)
    };
    let text = formatted(FormatStyle::Printf, pattern, &arguments)?;
    Ok(markup::like(like, text))
}

/// Arguments of a format string; what minijinja would print its own way is turned into Python's text first.
pub(crate) fn printable(arguments: &[Value]) -> Vec<Value> {
    let as_text = |value: &Value| match Type::of(value) {
        Type::Int | Type::Float | Type::Str | Type::Dict => value.clone(),
        _ if value.is_kwargs() => value.clone(),
        _ => Value::from(text::str(value).into_owned()),
    };
    arguments.iter().map(as_text).collect()
}

/// Fills in a format string. Widths count before anything is as wide.
pub(crate) fn formatted(
    style: FormatStyle,
    pattern: &str,
    arguments: &[Value],
) -> Result<String, Error> {
    let digits = pattern.split(|c: char| !c.is_ascii_digit());
    let spelled = digits.filter(|digits| !digits.is_empty());
    spelled.for_each(|digits| budget::spend(digits.parse().unwrap_or(usize::MAX)));
    if pattern.contains('*') || pattern.contains(":{") {
        let widths = arguments.iter().filter_map(as_int);
        widths.for_each(|width| {
            budget::spend(usize::try_from(width.unsigned_abs()).unwrap_or(usize::MAX));
        });
    }
    budget::check()?;
    let text = format(style, pattern, arguments)?;
    budget::take(text.len())?;
    Ok(text)
}

pub(crate) fn power(a: &Value, b: &Value) -> Result<Value, Error> {
    match numbers("**", a, b)? {
        Numbers::Ints(a, b) if b >= 0 => {
            let exponent = u32::try_from(b).map_err(|_| overflow("**"))?;
            a.checked_pow(exponent)
                .map(from_int)
                .ok_or_else(|| overflow("**"))
        }
        Numbers::Ints(0, _) => Err(zero_division()),
        Numbers::Ints(a, b) => Ok(Value::from((a as f64).powf(b as f64))),
        Numbers::Floats(a, b) => Ok(Value::from(a.powf(b))),
    }
}

pub(crate) fn negate(a: &Value) -> Result<Value, Error> {
    match (as_int(a), as_float(a)) {
        (Some(int), _) => Ok(from_int(-int)),
        (None, Some(float)) => Ok(Value::from(-float)),
        (None, None) if a.is_undefined() => {
            Err(undefined_error("an undefined value is used with `-`"))
        }
        (None, None) => Err(error(format!(
            "bad operand type for unary -: '{}'",
            Type::of(a).name()
        ))),
    }
}

/// `a ~ b`.
pub(crate) fn concat(a: &Value, b: &Value) -> Result<Value, Error> {
    let parts = [text::str(a), text::str(b)];
    budget::take(parts[0].len() + parts[1].len())?;
    Ok(Value::from(parts.concat()))
}

pub(crate) fn less(a: &Value, b: &Value) -> Result<bool, Error> {
    Ok(compare(a, b, "<")? == Some(Ordering::Less))
}

pub(crate) fn less_or_equal(a: &Value, b: &Value) -> Result<bool, Error> {
    Ok(matches!(
        compare(a, b, "<=")?,
        Some(Ordering::Less | Ordering::Equal)
    ))
}

pub(crate) fn greater(a: &Value, b: &Value) -> Result<bool, Error> {
    Ok(compare(a, b, ">")? == Some(Ordering::Greater))
}

pub(crate) fn greater_or_equal(a: &Value, b: &Value) -> Result<bool, Error> {
    Ok(matches!(
        compare(a, b, ">=")?,
        Some(Ordering::Greater | Ordering::Equal)
    ))
}

/// `a in b`.
pub(crate) fn is_in(a: &Value, b: &Value) -> Result<bool, Error> {
    contains(b, a)
}

/// `a not in b`.
pub(crate) fn not_in(a: &Value, b: &Value) -> Result<bool, Error> {
    Ok(!contains(b, a)?)
}
