//! The tests of jinja2 (`x is defined`).

use minijinja::value::{Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error};

use super::super::python::call::{Arguments, required};
use super::super::python::ops;
use super::super::python::text::str;
use super::super::python::value::{Generator, Type, as_int, equal, error};

type Plain = fn(&Value) -> Result<bool, Error>;
type Against = fn(&Value, &Value) -> Result<bool, Error>;

/// Tests of one value.
const PLAIN: &[(&str, Plain)] = &[
    ("boolean", |value| Ok(Type::of(value) == Type::Bool)),
    ("callable", |value| {
        Ok(Type::of(value) == Type::Object && value.kind() == ValueKind::Plain)
    }),
    ("defined", |value| Ok(!value.is_undefined())),
    ("escaped", |value| Ok(value.is_safe())),
    ("even", |value| Ok(parity(value)? == 0)),
    ("false", |value| {
        Ok(Type::of(value) == Type::Bool && !value.is_true())
    }),
    ("float", |value| Ok(Type::of(value) == Type::Float)),
    ("integer", |value| Ok(Type::of(value) == Type::Int)),
    ("iterable", |value| {
        Ok(matches!(
            Type::of(value),
            Type::Undefined | Type::Str | Type::List | Type::Tuple | Type::Dict | Type::Iterable
        ))
    }),
    ("lower", |value| {
        Ok(str(value).chars().any(char::is_lowercase)
            && !str(value).chars().any(char::is_uppercase))
    }),
    ("mapping", |value| Ok(Type::of(value) == Type::Dict)),
    ("none", |value| Ok(value.is_none())),
    ("number", |value| Ok(Type::of(value).is_number())),
    ("odd", |value| Ok(parity(value)? == 1)),
    ("sequence", |value| {
        Ok(match Type::of(value) {
            Type::Undefined | Type::Str | Type::List | Type::Tuple | Type::Dict => true,
            Type::Iterable => {
                value.downcast_object_ref::<Generator>().is_none() && value.as_object().is_none()
            }
            _ => false,
        })
    }),
    ("string", |value| Ok(Type::of(value) == Type::Str)),
    ("true", |value| {
        Ok(Type::of(value) == Type::Bool && value.is_true())
    }),
    ("undefined", |value| Ok(value.is_undefined())),
    ("upper", |value| {
        Ok(str(value).chars().any(char::is_uppercase)
            && !str(value).chars().any(char::is_lowercase))
    }),
];

/// Tests of a value against another.
const AGAINST: &[(&str, Against)] = &[
    ("divisibleby", |value, divisor| {
        Ok(as_int(&ops::remainder(value, divisor)?) == Some(0))
    }),
    ("eq", |a, b| Ok(equal(a, b))),
    ("==", |a, b| Ok(equal(a, b))),
    ("equalto", |a, b| Ok(equal(a, b))),
    ("ge", ops::greater_or_equal),
    (">=", ops::greater_or_equal),
    ("gt", ops::greater),
    (">", ops::greater),
    ("greaterthan", ops::greater),
    ("in", ops::is_in),
    ("le", ops::less_or_equal),
    ("<=", ops::less_or_equal),
    ("lt", ops::less),
    ("<", ops::less),
    ("lessthan", ops::less),
    ("ne", |a, b| Ok(!equal(a, b))),
    ("!=", |a, b| Ok(!equal(a, b))),
    ("sameas", |value, other| {
        Ok(Type::of(value) == Type::of(other) && equal(value, other))
    }),
];

fn parity(value: &Value) -> Result<i128, Error> {
    as_int(&ops::remainder(value, &Value::from(2))?)
        .ok_or_else(|| error("parity of a value that is no integer"))
}

pub(super) fn install(environment: &mut Environment<'static>) {
    for &(name, test) in PLAIN {
        environment.add_test(
            name,
            move |value: Value, rest: Rest<ValueOrKwargs>| -> Result<bool, Error> {
                let [] = Arguments::new(rest.into_values()).bind(name, [])?;
                test(&value)
            },
        );
    }
    for &(name, test) in AGAINST {
        environment.add_test(
            name,
            move |value: Value, rest: Rest<ValueOrKwargs>| -> Result<bool, Error> {
                let [other] = Arguments::new(rest.into_values()).bind(name, ["other"])?;
                test(&value, &required(name, "other", other)?)
            },
        );
    }
}
