//! The functions and tests that a chat template can use.

use std::fmt::Write;

use minijinja::value::{Rest, Value, ValueOrKwargs};
use minijinja::{Environment, Error};

use super::Clock;
use super::arguments::{Arguments, int_or_none, required};
use super::budget;
use super::json;
use super::operators::{ordered, remainder};
use super::text::weighed;
use super::value::{Type, as_int, contains, equal, error, iterate};

/// What a template said with `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Raised(pub(crate) String);

/// Longest range, as in jinja2's sandbox.
const MAX_RANGE: i64 = 100_000;

/// Does something within the budget of the rendering: what takes too much of it fails, whatever it gives.
pub(super) fn bounded<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    budget::check()?;
    let outcome = work()?;
    budget::check()?;
    Ok(outcome)
}

pub(super) fn install(environment: &mut Environment<'static>, clock: Clock) {
    environment.remove_global("debug");
    environment.add_function("cycler", |items: Rest<Value>| {
        minijinja_contrib::globals::cycler(items.0)
    });
    environment.add_function("joiner", minijinja_contrib::globals::joiner);
    environment.add_function("range", |rest: Rest<ValueOrKwargs>| bounded(|| range(rest)));
    environment.add_function("from_json", |text: String| json::load(&text));
    environment.add_function(
        "raise_exception",
        |message: Value| -> Result<Value, Error> {
            let message = weighed(&message)?.into_owned();
            Err(error("raised by the template").with_source(Raised(message)))
        },
    );
    environment.add_function(
        "strftime_now",
        move |format: String| -> Result<String, Error> {
            let mut out = String::new();
            write!(out, "{}", clock().format(&format))
                .map_err(|_| error(format!("`{format}` is no strftime format")))?;
            Ok(out)
        },
    );
    install_tests(environment);
}

fn range(rest: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let [first, second, step] =
        Arguments::new(rest.into_values()).bind("range", ["start", "stop", "step"])?;
    let first = int_or_none("range", Some(&required("range", "stop", first)?))?;
    let first = first.ok_or_else(|| error("range() needs integers"))?;
    let (from, end) = int_or_none("range", second.as_ref())?.map_or((0, first), |end| (first, end));
    let by = int_or_none("range", step.as_ref())?.unwrap_or(1);
    if by == 0 {
        return Err(error("range() arg 3 must not be zero"));
    }
    let span = if by > 0 {
        end.saturating_sub(from)
    } else {
        from.saturating_sub(end)
    };
    let len = span.max(0).unsigned_abs().div_ceil(by.unsigned_abs());
    if len > MAX_RANGE.unsigned_abs() {
        return Err(error(format!(
            "range too big; the sandbox blocks ranges larger than {MAX_RANGE}"
        )));
    }
    budget::spend_items(len as usize);
    budget::check()?;
    Ok((0..len as i64).map(|index| from + index * by).collect())
}

type Test = fn(&Value, &Value) -> Result<bool, Error>;

/// Tests against another value that fail where Python's operators fail, and count what they take.
const AGAINST: &[(&str, Test)] = &[
    ("divisibleby", |value, divisor| {
        Ok(as_int(&remainder(value, divisor)?) == Some(0))
    }),
    ("eq", equal),
    ("==", equal),
    ("equalto", equal),
    ("ne", |a, b| equal(a, b).map(|equal| !equal)),
    ("!=", |a, b| equal(a, b).map(|equal| !equal)),
    ("in", |a, b| contains(b, a)),
    ("ge", |a, b| ordered(a, b, ">=")),
    (">=", |a, b| ordered(a, b, ">=")),
    ("gt", |a, b| ordered(a, b, ">")),
    (">", |a, b| ordered(a, b, ">")),
    ("greaterthan", |a, b| ordered(a, b, ">")),
    ("le", |a, b| ordered(a, b, "<=")),
    ("<=", |a, b| ordered(a, b, "<=")),
    ("lt", |a, b| ordered(a, b, "<")),
    ("<", |a, b| ordered(a, b, "<")),
    ("lessthan", |a, b| ordered(a, b, "<")),
];

fn install_tests(environment: &mut Environment<'static>) {
    for &(name, test) in AGAINST {
        environment.add_test(name, move |value: Value, other: Value| {
            [&value, &other].into_iter().for_each(budget::search);
            bounded(|| test(&value, &other))
        });
    }
    for (name, of_two) in [("even", 0), ("odd", 1)] {
        environment.add_test(name, move |value: Value| {
            remainder(&value, &Value::from(2)).map(|rest| as_int(&rest) == Some(of_two))
        });
    }
    environment.add_test("iterable", |value: Value| match Type::of(&value) {
        Type::Str | Type::Iterable => true,
        _ => iterate(&value).is_ok(),
    });
    environment.add_test("mapping", |value: Value| Type::of(&value) == Type::Dict);
    environment.add_test("sequence", |value: Value| {
        let kind = Type::of(&value);
        matches!(
            kind,
            Type::Undefined | Type::Str | Type::List | Type::Tuple | Type::Dict
        )
    });
    environment.add_test("callable", |value: Value| {
        Type::of(&value) == Type::Object && value.kind() == minijinja::value::ValueKind::Plain
    });
    for name in ["endingwith", "int", "safe", "startingwith"] {
        environment.remove_test(name);
    }
}
