//! Functions and tests that a chat template can use.

use std::fmt::Write;
use std::sync::Arc;

use chrono::NaiveDateTime;
use minijinja::value::{DynObject, Rest, Value, ValueOrKwargs};
use minijinja::{Environment, Error};

use super::budget::bounded;
use super::json;
use super::operators::visit;
use super::text::weighed;
use super::value::{Type, error, is_iterable, items};
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

fn install_tests(environment: &mut Environment<'static>) {
    environment.add_test("iterable", |value: &Value| {
        is_iterable(Type::from_value(value))
    });
    environment.add_test("mapping", |value: &Value| {
        Type::from_value(value) == Type::Dict
    });
    environment.add_test("sequence", |value: &Value| {
        is_iterable(Type::from_value(value)) && Type::from_value(value) != Type::Iterable
    });
    for name in [
        "endingwith",
        "escaped",
        "int",
        "lower",
        "safe",
        "startingwith",
        "upper",
    ] {
        environment.remove_test(name);
    }
}
