//! Python's operators, subscripts and loops: the functions that `compile` calls instead of
//! instructions.

use std::cmp::Ordering;

use minijinja::formatting::{FormatStyle, format};
use minijinja::value::{Kwargs, Tuple, Value};
use minijinja::{Environment, Error};

use super::access;
use super::arguments::Arguments;
use super::budget::{self, bounded};
use super::text::weighed;
use super::value::{
    Type, as_float, as_int, compare, contains, equal, error, from_int, is_iterable, items, iterate,
    list_like,
};
use crate::text::template_limits::{data, held};

/// Maximum length of a repeated string or list. A longer one is treated as an attack.
const MAX_REPEATED_LEN: usize = 10_000_000;

type Operator = fn(&Value, &Value) -> Result<Value, Error>;

/// Operators, with the names that replaced instructions use, and the names of tests that are the
/// same. Templates cannot use the former.
#[rustfmt::skip]
pub(super) const OPERATORS: &[(&str, &[&str], Operator)] = &[
    ("__py_Add", &[], add),
    ("__py_Mul", &[], multiply),
    ("__py_Rem", &[], remainder),
    ("__py_StringConcat", &[], concat),
    ("__py_Eq", &["eq", "==", "equalto"], |a, b| equal(a, b).map(Value::from)),
    ("__py_Ne", &["ne", "!="], |a, b| equal(a, b).map(|equal| Value::from(!equal))),
    ("__py_Lt", &["lt", "<", "lessthan"], |a, b| ordered(a, b, "<", &[Ordering::Less])),
    ("__py_Lte", &["le", "<="], |a, b| ordered(a, b, "<=", &[Ordering::Less, Ordering::Equal])),
    ("__py_Gt", &["gt", ">", "greaterthan"], |a, b| ordered(a, b, ">", &[Ordering::Greater])),
    ("__py_Gte", &["ge", ">="], |a, b| ordered(a, b, ">=", &[Ordering::Greater, Ordering::Equal])),
    ("__py_In", &["in"], |a, b| contains(b, a).map(Value::from)),
    ("__py_NotIn", &[], |a, b| contains(b, a).map(|found| Value::from(!found))),
    ("__py_GetItem", &[], access::item),
    ("__py_attr", &[], |object, name| access::attribute(object, name.as_str().unwrap_or_default())),
];

/// Applies one of [`OPERATORS`], within the budget.
fn apply(operator: Operator, a: &Value, b: &Value) -> Result<Value, Error> {
    [a, b].into_iter().for_each(budget::search);
    bounded(|| operator(a, b))
}

pub(super) fn install(environment: &mut Environment<'static>) {
    for &(name, tests, operator) in OPERATORS {
        let applied = move |a: &Value, b: &Value| apply(operator, a, b);
        environment.add_function(name, applied);
        for test in tests {
            environment.add_test(*test, applied);
        }
    }
    environment.add_function("__py_chained", |a: &Value, b: &Value, name: &str| {
        let is_meant = |(of, ..): &&(&str, _, _)| of.strip_prefix("__py_") == Some(name);
        let found = OPERATORS.iter().find(is_meant);
        let (.., operator) = found.ok_or_else(|| error("unknown comparison"))?;
        let pair = [apply(*operator, a, b)?, b.clone()];
        Ok::<_, Error>(Value::from(Tuple::from(pair)))
    });
    environment.add_function("__py_Neg", |value: &Value| negate(value));
    environment.add_function("__py_iter", |value: &Value| {
        held(value, &visit)?;
        bounded(|| loop_source(value))
    });
    environment.add_function("__py_held", |value: Value| {
        held(&value, &visit).map(|()| value)
    });
    environment.add_function("__py_data", |value: Value| {
        data(&value, &visit).map(|()| value)
    });
    environment.add_function(
        "__py_Slice",
        |object: &Value, start: &Value, stop: &Value, step: &Value| {
            bounded(|| access::slice(object, [start, stop, step]))
        },
    );
    environment.add_filter("__py_value", |value: &Value| value.clone());
}

/// Counts the items of a value that is visited.
pub(super) fn visit(items: usize) -> Result<(), Error> {
    budget::take(size_of::<Value>() + items)
}

/// Returns the values for a `for` loop. Only Python's iterables are allowed.
fn loop_source(value: &Value) -> Result<Value, Error> {
    if is_iterable(Type::from_value(value)) {
        return Ok(value.clone());
    }
    iterate(value).map(Value::from)
}

fn ordered(a: &Value, b: &Value, sign: &str, orders: &[Ordering]) -> Result<Value, Error> {
    let order = compare(a, b, sign)?;
    let holds = order.is_some_and(|order| orders.contains(&order));
    Ok(Value::from(holds))
}

fn unsupported(operator: &str, a: &Value, b: &Value) -> Error {
    match (Type::from_value(a), Type::from_value(b)) {
        (Type::Undefined, _) | (_, Type::Undefined) => {
            error(format!("an undefined value is used with `{operator}`"))
        }
        (left, right) => error(format!(
            "unsupported operand type(s) for {operator}: '{left}' and '{right}'"
        )),
    }
}

/// Computes an operation on two integers, or on two floats. Fails if integers overflow.
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

fn add(a: &Value, b: &Value) -> Result<Value, Error> {
    match (Type::from_value(a), Type::from_value(b)) {
        (Type::Str, Type::Str) if a.is_safe() || b.is_safe() => {
            let text = concat(&escaped(a)?, &escaped(b)?)?;
            Ok(Value::from_safe_string(text.to_string()))
        }
        (Type::Str, Type::Str) => concat(a, b),
        (Type::List, Type::List) | (Type::Tuple, Type::Tuple) => {
            Ok(list_like(a, [items(a), items(b)].concat()))
        }
        (Type::Undefined, _) | (_, Type::Undefined) => Err(unsupported("+", a, b)),
        (kind @ (Type::Str | Type::List | Type::Tuple), other) => Err(error(format!(
            "can only concatenate {kind} (not \"{other}\") to {kind}"
        ))),
        _ => numbers("+", (a, b), i128::checked_add, |a, b| a + b),
    }
}

fn multiply(a: &Value, b: &Value) -> Result<Value, Error> {
    match (Type::from_value(a), Type::from_value(b)) {
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
    let repeated = len
        .checked_mul(times)
        .filter(|len| *len <= MAX_REPEATED_LEN);
    budget::take(repeated.ok_or_else(|| error("the repeated value is too large"))? * size)?;
    if let Some(text) = value.as_str() {
        return Ok(Value::from(text.repeat(times)));
    }
    let items = std::iter::repeat_n(items(value), times).flatten();
    Ok(list_like(value, items.collect()))
}

fn remainder(a: &Value, b: &Value) -> Result<Value, Error> {
    if let Some(pattern) = a.as_str() {
        let values = if b.is_tuple() {
            items(b)
        } else {
            vec![b.clone()]
        };
        return formatted(FormatStyle::Printf, pattern, Arguments::new(values));
    }
    // The remainder has the sign of the divisor.
    let ints = |a: i128, b: i128| {
        let rest = a.checked_rem(b)?;
        let differs = rest != 0 && (rest < 0) != (b < 0);
        Some(if differs { rest + b } else { rest })
    };
    let floats = |a: f64, b: f64| {
        let rest = a % b;
        let differs = rest != 0.0 && (rest < 0.0) != (b < 0.0);
        if differs { rest + b } else { rest }
    };
    if as_float(a).is_some() && as_float(b) == Some(0.0) {
        return Err(error("division by zero"));
    }
    numbers("%", (a, b), ints, floats)
}

/// Fills in a format string. minijinja does it; values that it would print differently are converted
/// to text before.
pub(super) fn formatted(
    style: FormatStyle,
    pattern: &str,
    arguments: Arguments,
) -> Result<Value, Error> {
    let printable = |value: &Value| {
        budget::weigh(value)?;
        Ok(match Type::from_value(value) {
            Type::Int | Type::Float | Type::Str | Type::Dict => value.clone(),
            _ => Value::from(weighed(value)?),
        })
    };
    let values = arguments.positional.iter().map(printable);
    let mut values = values.collect::<Result<Vec<_>, Error>>()?;
    // Widths are counted before any text is as wide.
    let digits = pattern.split(|c: char| !c.is_ascii_digit());
    let spelled = digits.filter(|digits| !digits.is_empty());
    spelled.for_each(|digits| budget::spend(digits.parse().unwrap_or(usize::MAX)));
    if pattern.contains('*') || pattern.contains(":{") {
        let widths = values.iter().filter_map(as_int).map(i128::unsigned_abs);
        widths.for_each(|width| budget::spend(usize::try_from(width).unwrap_or(usize::MAX)));
    }
    budget::check()?;
    if !arguments.keyword.is_empty() {
        let keyword = arguments.keyword.into_iter();
        let keyword = keyword.map(|(name, value)| Ok((name, printable(&value)?)));
        values.push(Value::from(keyword.collect::<Result<Kwargs, Error>>()?));
    }
    let text = format(style, pattern, &values)?;
    budget::take(text.len())?;
    Ok(Value::from(text))
}

/// Returns markup of a value, in which HTML's special characters are entities. Markup stays
/// unchanged.
pub(super) fn escaped(value: &Value) -> Result<Value, Error> {
    if value.is_safe() {
        return Ok(value.clone());
    }
    let mut text = weighed(value)?.into_owned();
    let entities = ["&amp;", "&lt;", "&gt;", "&#34;", "&#39;"];
    for (c, entity) in ['&', '<', '>', '"', '\''].into_iter().zip(entities) {
        text = text.replace(c, entity);
        budget::take(text.len())?;
    }
    Ok(Value::from_safe_string(text))
}

fn negate(value: &Value) -> Result<Value, Error> {
    let refused = || {
        error(format!(
            "bad operand type for unary -: '{}'",
            Type::from_value(value)
        ))
    };
    match as_int(value) {
        Some(int) => Ok(from_int(-int)),
        None => as_float(value)
            .map(|float| Value::from(-float))
            .ok_or_else(refused),
    }
}

/// Evaluates `a ~ b`.
fn concat(a: &Value, b: &Value) -> Result<Value, Error> {
    let parts = [weighed(a)?, weighed(b)?];
    budget::take(parts[0].len() + parts[1].len())?;
    Ok(Value::from(parts.concat()))
}
