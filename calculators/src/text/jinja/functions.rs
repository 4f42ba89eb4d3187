//! Functions and tests that a chat template can use.

use std::fmt::Write;
use std::sync::Arc;

use chrono::NaiveDateTime;
use minijinja::value::{DynObject, Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error};

use super::budget::{self, bounded};
use super::json;
use super::operators::{OPERATORS, apply, remainder, visit};
use super::text::weighed;
use super::value::{Type, as_float, error, is_iterable, items};
use crate::text::template_limits::data;

/// The source of the local time for `strftime_now`.
pub type Clock = Arc<dyn Fn() -> NaiveDateTime + Send + Sync>;

/// The message of a template's `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct TemplateException(pub(crate) String);

pub(super) fn install(environment: &mut Environment<'static>, clock: Clock) {
    environment.remove_global("debug");
    environment.add_function("cycler", |items: Rest<Value>| {
        items.iter().try_for_each(|item| data(item, &visit))?;
        minijinja_contrib::globals::cycler(items.0)
    });
    environment.add_function("namespace", |defaults: Option<ValueOrKwargs>| {
        let defaults = defaults.map(ValueOrKwargs::into_value);
        let entries = defaults.as_ref().and_then(Value::as_object);
        let entries = entries.and_then(DynObject::try_iter_pairs);
        let mut entries = entries.into_iter().flatten();
        entries.try_for_each(|(_, value)| data(&value, &visit))?;
        minijinja::functions::namespace(defaults.map(ValueOrKwargs::from))
    });
    environment.add_function("joiner", minijinja_contrib::globals::joiner);
    environment.add_function("range", range);
    environment.add_function("from_json", |text: String| json::load(&text));
    environment.add_function(
        "raise_exception",
        |message: Value| -> Result<Value, Error> {
            let message = weighed(&message)?.into_owned();
            Err(error("raised by the template").with_source(TemplateException(message)))
        },
    );
    environment.add_function(
        "strftime_now",
        move |format: String| -> Result<String, Error> {
            let mut out = String::new();
            write!(out, "{}", clock().format(&format))
                .map_err(|_| error(format!("`{format}` is not a strftime format")))?;
            Ok(out)
        },
    );
    install_tests(environment);
}

/// Returns a list for Python's `range`, whose result has a length and an index.
fn range(from: i32, to: Option<i32>, step: Option<i32>) -> Result<Value, Error> {
    let wide = |bound: i32| bound as isize;
    let range = minijinja::functions::range(wide(from), to.map(wide), step.map(wide))?;
    bounded(|| Ok(Value::from(items(&range))))
}

/// Functions of the tests that are operators, and the tests' names.
const OPERATORS_AS_TESTS: &[(&str, &[&str])] = &[
    ("__py_Eq", &["eq", "==", "equalto"]),
    ("__py_Ne", &["ne", "!="]),
    ("__py_Lt", &["lt", "<", "lessthan"]),
    ("__py_Lte", &["le", "<="]),
    ("__py_Gt", &["gt", ">", "greaterthan"]),
    ("__py_Gte", &["ge", ">="]),
    ("__py_In", &["in"]),
];

fn install_tests(environment: &mut Environment<'static>) {
    for &(of, operator) in OPERATORS {
        let names = OPERATORS_AS_TESTS.iter().find(|(other, _)| *other == of);
        for name in names.map_or(&[][..], |(_, names)| names) {
            environment.add_test(*name, move |a: &Value, b: &Value| apply(operator, a, b));
        }
    }
    environment.add_test("divisibleby", |a: &Value, b: &Value| is_rest(a, b, 0));
    environment.add_test("even", |value: &Value| is_rest(value, &Value::from(2), 0));
    environment.add_test("odd", |value: &Value| is_rest(value, &Value::from(2), 1));
    environment.add_test("lower", |value: &Value| is_all(value, char::is_lowercase));
    environment.add_test("upper", |value: &Value| is_all(value, char::is_uppercase));
    environment.add_test("callable", |value: &Value| value.kind() == ValueKind::Plain);
    environment.add_test("iterable", |value: &Value| {
        is_iterable(Type::from_value(value))
    });
    environment.add_test("mapping", |value: &Value| {
        Type::from_value(value) == Type::Dict
    });
    environment.add_test("sequence", |value: &Value| {
        is_iterable(Type::from_value(value)) && Type::from_value(value) != Type::Iterable
    });
    for name in ["endingwith", "int", "safe", "startingwith"] {
        environment.remove_test(name);
    }
}

/// Returns true if all characters of a text are of a kind.
fn is_all(value: &Value, is_kind: impl Fn(char) -> bool) -> Result<bool, Error> {
    bounded(|| {
        budget::search(value);
        budget::check()?;
        Ok(value.as_str().is_some_and(|text| text.chars().all(is_kind)))
    })
}

fn is_rest(value: &Value, divisor: &Value, rest: i32) -> Result<bool, Error> {
    let found = remainder(value, divisor)?;
    let number = as_float(&found).ok_or_else(|| error("only a number has a rest"));
    number.map(|_| found == Value::from(rest))
}
