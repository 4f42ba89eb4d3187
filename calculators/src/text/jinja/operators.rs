//! What the instructions that `compile` replaces do: Python's operators, subscripts and loops.

use std::cmp::Ordering;

use minijinja::formatting::{FormatStyle, format};
use minijinja::value::{Kwargs, Tuple, Value};
use minijinja::{Environment, Error};

use super::access;
use super::arguments::Arguments;
use super::budget;
use super::functions::bounded;
use super::markup::{self, is_markup};
use super::text::{self, str};
use super::value::{
    Type, as_float, as_int, compare, contains, equal, error, from_int, items, iterate,
    undefined_error,
};

/// Most that a template can make by repeating a string or a list; more is taken for an attack.
const MAX_REPEATED_LEN: usize = 10_000_000;

type Binary = fn(&Value, &Value) -> Result<Value, Error>;

const BINARY: &[(&str, Binary)] = &[
    ("__py_+", add),
    ("__py_*", multiply),
    ("__py_%", remainder),
    ("__py_~", concat),
    ("__py_==", |a, b| equal(a, b).map(Value::from)),
    ("__py_!=", |a, b| {
        equal(a, b).map(|equal| Value::from(!equal))
    }),
    ("__py_<", |a, b| ordered(a, b, "<").map(Value::from)),
    ("__py_<=", |a, b| ordered(a, b, "<=").map(Value::from)),
    ("__py_>", |a, b| ordered(a, b, ">").map(Value::from)),
    ("__py_>=", |a, b| ordered(a, b, ">=").map(Value::from)),
    ("__py_in", |a, b| contains(b, a).map(Value::from)),
    ("__py_item", access::item),
    ("__py_attr", |object, name| {
        access::attribute(object, name.as_str().unwrap_or_default())
    }),
];

pub(super) fn install(environment: &mut Environment<'static>) {
    for &(name, function) in BINARY {
        environment.add_function(name, move |a: &Value, b: &Value| {
            [a, b].into_iter().for_each(budget::search);
            bounded(|| function(a, b))
        });
    }
    environment.add_function("__py_neg", |value: &Value| negate(value));
    environment.add_function("__py_iter", |value: &Value| bounded(|| loop_source(value)));
    environment.add_function(
        "__py_slice",
        |object: &Value, start: &Value, stop: &Value, step: &Value| {
            bounded(|| access::slice(object, start, stop, step))
        },
    );
    environment.add_function("__py_chained", |a: &Value, b: &Value, operator: &str| {
        bounded(|| {
            let holds = match operator {
                "Eq" => equal(a, b)?,
                "Ne" => !equal(a, b)?,
                "In" => contains(b, a)?,
                "NotIn" => !contains(b, a)?,
                "Lt" => ordered(a, b, "<")?,
                "Lte" => ordered(a, b, "<=")?,
                "Gt" => ordered(a, b, ">")?,
                _ => ordered(a, b, ">=")?,
            };
            Ok(Value::from(Tuple::from([Value::from(holds), b.clone()])))
        })
    });
    environment.add_filter("__py_value", |value: &Value| value.clone());
}

/// What a `for` loop runs over: Python's iterables and nothing else.
fn loop_source(value: &Value) -> Result<Value, Error> {
    match Type::of(value) {
        Type::List | Type::Tuple | Type::Dict | Type::Iterable | Type::Str => Ok(value.clone()),
        _ => iterate(value).map(Value::from),
    }
}

pub(super) fn ordered(a: &Value, b: &Value, operator: &str) -> Result<bool, Error> {
    let Some(order) = compare(a, b, operator)? else {
        return Ok(false);
    };
    Ok(match operator {
        "<" => order == Ordering::Less,
        "<=" => order != Ordering::Greater,
        ">" => order == Ordering::Greater,
        _ => order != Ordering::Less,
    })
}

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

/// An operation on two numbers: on integers, `None` where there is no result, and else on floats.
fn numbers(
    operator: &str,
    (a, b): (&Value, &Value),
    ints: fn(i128, i128) -> Option<i128>,
    floats: fn(f64, f64) -> f64,
) -> Result<Value, Error> {
    if let (Some(a), Some(b)) = (as_int(a), as_int(b)) {
        let overflow = || error(format!("integer too large in `{operator}`"));
        return ints(a, b).map(from_int).ok_or_else(overflow);
    }
    match (as_float(a), as_float(b)) {
        (Some(a), Some(b)) => Ok(Value::from(floats(a, b))),
        _ => Err(unsupported(operator, a, b)),
    }
}

pub(super) fn add(a: &Value, b: &Value) -> Result<Value, Error> {
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
        _ => numbers("+", (a, b), i128::checked_add, |a, b| a + b),
    }
}

fn multiply(a: &Value, b: &Value) -> Result<Value, Error> {
    match (Type::of(a), Type::of(b)) {
        (Type::Str | Type::List | Type::Tuple, Type::Int | Type::Bool) => repeat(a, b),
        (Type::Int | Type::Bool, Type::Str | Type::List | Type::Tuple) => repeat(b, a),
        _ => numbers("*", (a, b), i128::checked_mul, |a, b| a * b),
    }
}

fn repeat(value: &Value, times: &Value) -> Result<Value, Error> {
    let times = usize::try_from(as_int(times).unwrap_or(0).max(0)).unwrap_or(usize::MAX);
    let (len, size) = match value.as_str() {
        Some(text) => (text.len(), 1),
        None => (value.len().unwrap_or(0), size_of::<Value>()),
    };
    let len = len
        .checked_mul(times)
        .filter(|len| *len <= MAX_REPEATED_LEN);
    budget::take(len.ok_or_else(|| error("the repeated value is too large"))? * size)?;
    if let Some(text) = value.as_str() {
        return Ok(markup::like(value, text.repeat(times)));
    }
    let items = items(value);
    let repeated: Vec<Value> = std::iter::repeat_n(&items, times)
        .flatten()
        .cloned()
        .collect();
    Ok(if value.is_tuple() {
        Value::from(Tuple::from(repeated))
    } else {
        Value::from(repeated)
    })
}

pub(super) fn remainder(a: &Value, b: &Value) -> Result<Value, Error> {
    if let Some(pattern) = a.as_str() {
        let positional = if b.is_tuple() {
            items(b)
        } else {
            vec![b.clone()]
        };
        let arguments = Arguments {
            positional,
            keyword: Vec::new(),
        };
        return formatted(FormatStyle::Printf, a, pattern, arguments);
    }
    if as_float(b) == Some(0.0) && as_float(a).is_some() {
        return Err(error("division by zero"));
    }
    let ints = |a: i128, b: i128| {
        let rest = a.checked_rem(b).unwrap_or(0);
        Some(if rest != 0 && (rest < 0) != (b < 0) {
            rest + b
        } else {
            rest
        })
    };
    numbers("%", (a, b), ints, |a, b| {
        let rest = a % b;
        if rest != 0.0 && (rest < 0.0) != (b < 0.0) {
            rest + b
        } else {
            rest
        }
    })
}

/// Fills in a format string, which may be markup. minijinja does so; what it would print its own way is text before.
pub(super) fn formatted(
    style: FormatStyle,
    like: &Value,
    pattern: &str,
    arguments: Arguments,
) -> Result<Value, Error> {
    let printable = |value: &Value| {
        budget::weigh(value)?;
        Ok(match Type::of(value) {
            Type::Int | Type::Float => value.clone(),
            _ if is_markup(like) => markup::format_argument(value),
            Type::Str | Type::Dict => value.clone(),
            _ => Value::from(str(value)),
        })
    };
    let mut values = arguments
        .positional
        .iter()
        .map(printable)
        .collect::<Result<Vec<_>, Error>>()?;
    // Widths count before anything is as wide.
    let digits = pattern.split(|c: char| !c.is_ascii_digit());
    let spelled = digits.filter(|digits| !digits.is_empty());
    spelled.for_each(|digits| budget::spend(digits.parse().unwrap_or(usize::MAX)));
    if pattern.contains('*') || pattern.contains(":{") {
        let widths = values.iter().filter_map(as_int);
        widths.for_each(|width| {
            budget::spend(usize::try_from(width.unsigned_abs()).unwrap_or(usize::MAX))
        });
    }
    budget::check()?;
    if !arguments.keyword.is_empty() {
        let keyword = arguments
            .keyword
            .iter()
            .map(|(name, value)| Ok((name.clone(), printable(value)?)));
        values.push(Value::from(keyword.collect::<Result<Kwargs, Error>>()?));
    }
    let text = format(style, pattern, &values)?;
    budget::take(text.len())?;
    Ok(markup::like(like, text))
}

fn negate(value: &Value) -> Result<Value, Error> {
    match (as_int(value), as_float(value)) {
        (Some(int), _) => Ok(from_int(-int)),
        (None, Some(float)) => Ok(Value::from(-float)),
        (None, None) => Err(error(format!(
            "bad operand type for unary -: '{}'",
            Type::of(value).name()
        ))),
    }
}

/// `a ~ b`.
fn concat(a: &Value, b: &Value) -> Result<Value, Error> {
    let parts = [text::weighed(a)?, text::weighed(b)?];
    budget::take(parts[0].len() + parts[1].len())?;
    Ok(Value::from(parts.concat()))
}
