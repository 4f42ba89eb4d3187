//! Functions a template can call, and the operators its rewritten form calls.

use std::fmt::Write;

use minijinja::value::{Rest, Value, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State};

use super::super::Clock;
use super::super::python::call::{Arguments, int_or_none, required};
use super::super::python::text::str;
use super::super::python::value::{Type, equal, error, iterate};
use super::super::python::{access, budget, json, ops};

/// What a template said with `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Raised(pub(crate) String);

/// Longest range, as in jinja2's sandbox.
const MAX_RANGE: i128 = 100_000;

type Unary = fn(&Value) -> Result<Value, Error>;
type Binary = fn(&Value, &Value) -> Result<Value, Error>;
type Comparison = fn(&Value, &Value) -> Result<bool, Error>;

const BINARY: &[(&str, Binary)] = &[
    ("__py_add", ops::add),
    ("__py_sub", ops::subtract),
    ("__py_mul", ops::multiply),
    ("__py_div", ops::divide),
    ("__py_floordiv", ops::floor_divide),
    ("__py_mod", ops::remainder),
    ("__py_pow", ops::power),
    ("__py_concat", ops::concat),
    ("__py_item", access::item),
    ("__py_attr", |object, name| {
        access::attribute(object, name.as_str().unwrap_or_default())
    }),
];

const COMPARISONS: &[(&str, Comparison)] = &[
    ("__py_eq", |a, b| Ok(equal(a, b))),
    ("__py_ne", |a, b| Ok(!equal(a, b))),
    ("__py_lt", ops::less),
    ("__py_le", ops::less_or_equal),
    ("__py_gt", ops::greater),
    ("__py_ge", ops::greater_or_equal),
    ("__py_in", ops::is_in),
    ("__py_not_in", ops::not_in),
];

const UNARY: &[(&str, Unary)] = &[("__py_neg", ops::negate), ("__py_iter", loop_source)];

pub(super) fn install(environment: &mut Environment<'static>, clock: Clock) {
    for &(name, function) in BINARY {
        environment.add_function(name, move |a: &Value, b: &Value| bounded(|| function(a, b)));
    }
    for &(name, function) in COMPARISONS {
        environment.add_function(name, move |a: &Value, b: &Value| {
            [a, b].into_iter().for_each(budget::search);
            bounded(|| function(a, b))
        });
    }
    for &(name, function) in UNARY {
        environment.add_function(name, move |value: &Value| bounded(|| function(value)));
    }
    environment.add_function(
        "__py_slice",
        |object: &Value, start: &Value, stop: &Value, step: &Value| {
            bounded(|| access::slice(object, start, stop, step))
        },
    );
    environment.add_function(
        "__py_method",
        |state: &mut State<'_, '_>, object: Value, name: Value, rest: Rest<ValueOrKwargs>| {
            budget::search(&object);
            let name = name.as_str().unwrap_or_default();
            bounded(|| access::call_method(state, &object, name, rest.into_values()))
        },
    );
    environment.add_function("namespace", minijinja::functions::namespace);
    environment.add_function("dict", minijinja::functions::dict);
    environment.add_function("cycler", |items: Rest<Value>| {
        minijinja_contrib::globals::cycler(items.0)
    });
    environment.add_function("joiner", minijinja_contrib::globals::joiner);
    environment.add_function("range", |rest: Rest<ValueOrKwargs>| bounded(|| range(rest)));
    environment.add_function(
        "raise_exception",
        |message: Value| -> Result<Value, Error> {
            Err(error("raised by the template").with_source(Raised(str(&message).into_owned())))
        },
    );
    environment.add_function(
        "strftime_now",
        move |format: String| -> Result<String, Error> {
            let mut out = String::new();
            write!(out, "{}", clock().format(&format)).map_err(|_| {
                Error::new(
                    ErrorKind::InvalidOperation,
                    format!("`{format}` is no strftime format"),
                )
            })?;
            Ok(out)
        },
    );
    environment.add_function("from_json", |text: String| json::load(&text));
}

/// Does something within the budget of the rendering: what takes too much of it fails, whatever it gives.
pub(super) fn bounded<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    budget::check()?;
    let outcome = work()?;
    budget::check()?;
    Ok(outcome)
}

/// What a `for` loop runs over: Python's iterables and nothing else.
fn loop_source(value: &Value) -> Result<Value, Error> {
    match Type::of(value) {
        Type::List | Type::Tuple | Type::Dict | Type::Iterable | Type::Str => Ok(value.clone()),
        _ => iterate(value).map(Value::from),
    }
}

fn range(rest: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let [first, second, step] =
        Arguments::new(rest.into_values()).bind("range", ["start", "stop", "step"])?;
    let first = required("range", "stop", first)?;
    let number = |value: Option<&Value>| int_or_none("range", value).map(|int| int.map(i128::from));
    let (from, end) = match number(second.as_ref())? {
        Some(end) => (number(Some(&first))?.unwrap_or(0), end),
        None => (
            0,
            number(Some(&first))?.ok_or_else(|| error("range() needs integers"))?,
        ),
    };
    let by = number(step.as_ref())?.unwrap_or(1);
    if by == 0 {
        return Err(error("range() arg 3 must not be zero"));
    }
    let len = if by > 0 {
        (end - from + by - 1) / by
    } else {
        (from - end - by - 1) / -by
    }
    .max(0);
    if len > MAX_RANGE {
        return Err(error(format!(
            "range too big; the sandbox blocks ranges larger than {MAX_RANGE}"
        )));
    }
    budget::spend_items(len as usize);
    budget::check()?;
    let items: Vec<Value> = (0..len)
        .map(|index| Value::from((from + index * by) as i64))
        .collect();
    Ok(Value::from(items))
}
