//! Python's view of a value: its type, order, membership and iteration.

use std::cmp::Ordering;
use std::fmt::{Formatter, Result as Written};
use std::sync::{Arc, LazyLock};

use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr, Value, ValueKind};
use minijinja::{Error, ErrorKind};

use super::budget;
use super::text;

/// The Python types a template can meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Undefined,
    None,
    Bool,
    Int,
    Float,
    Str,
    List,
    Tuple,
    Dict,
    /// Iterable and no list: a dict's view, the result of `map`.
    Iterable,
    /// Macros, namespaces, the `loop` variable, functions.
    Object,
}

impl Type {
    pub(super) fn of(value: &Value) -> Self {
        match value.kind() {
            ValueKind::Undefined => Self::Undefined,
            ValueKind::None => Self::None,
            ValueKind::Bool => Self::Bool,
            ValueKind::Number if value.is_integer() => Self::Int,
            ValueKind::Number => Self::Float,
            ValueKind::String => Self::Str,
            ValueKind::Seq if value.is_tuple() => Self::Tuple,
            ValueKind::Seq => Self::List,
            ValueKind::Map if is_dict(value) => Self::Dict,
            ValueKind::Iterable => Self::Iterable,
            _ => Self::Object,
        }
    }

    /// The name Python's error messages use.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Undefined => "Undefined",
            Self::None => "NoneType",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Float => "float",
            Self::Str => "str",
            Self::List => "list",
            Self::Tuple => "tuple",
            Self::Dict => "dict",
            Self::Iterable => "generator",
            Self::Object => "object",
        }
    }

    fn is_number(self) -> bool {
        matches!(self, Self::Bool | Self::Int | Self::Float)
    }
}

/// minijinja also reports namespaces and the loop variable as maps; only its plain map type is a `dict`.
fn is_dict(value: &Value) -> bool {
    static PLAIN: LazyLock<Option<&'static str>> = LazyLock::new(|| {
        let dict = Value::from_pairs([("", "")]);
        dict.as_object().map(DynObject::type_name)
    });
    value.as_object().map(DynObject::type_name) == *PLAIN
}

/// Python's `TypeError`, `ValueError` and their like.
pub(super) fn error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// jinja2's `UndefinedError`.
pub(super) fn undefined_error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::UndefinedError, message.into())
}

/// What filters and `dict.items()` give: it can be iterated, and has no index.
#[derive(Debug)]
pub(super) struct Lazy {
    /// The name of a dict's view; a generator has none, is always true and has no length.
    pub(super) view: Option<&'static str>,
    pub(super) items: Vec<Value>,
}

impl Object for Lazy {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn get_value(self: &Arc<Self>, _: &Value) -> Option<Value> {
        Some(Value::UNDEFINED)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.items.clone())
    }

    fn is_true(self: &Arc<Self>) -> bool {
        self.view.is_none() || !self.items.is_empty()
    }

    fn render(self: &Arc<Self>, f: &mut Formatter<'_>) -> Written {
        f.write_str(&text::repr(&Value::from_dyn_object(Arc::clone(self))))
    }
}

pub(super) fn generator(items: Vec<Value>) -> Value {
    Value::from_object(Lazy { view: None, items })
}

pub(super) fn is_generator(value: &Value) -> bool {
    value
        .downcast_object_ref::<Lazy>()
        .is_some_and(|lazy| lazy.view.is_none())
}

pub(super) fn as_int(value: &Value) -> Option<i128> {
    match Type::of(value) {
        Type::Bool => Some(i128::from(value.is_true())),
        Type::Int => i128::try_from(value.clone()).ok(),
        _ => None,
    }
}

pub(super) fn as_float(value: &Value) -> Option<f64> {
    match Type::of(value) {
        Type::Float => f64::try_from(value.clone()).ok(),
        _ => as_int(value).map(|int| int as f64),
    }
}

/// An integer as the smallest representation that holds it.
pub(super) fn from_int(int: i128) -> Value {
    i64::try_from(int).map_or_else(|_| Value::from(int), Value::from)
}

/// `a == b`.
pub(super) fn equal(a: &Value, b: &Value) -> Result<bool, Error> {
    if a.as_object().is_some() && b.as_object().is_some() {
        budget::weigh(a)?;
        budget::weigh(b)?;
    }
    Ok(a == b)
}

/// `a < b` and its like; `Ok(None)` where Python compares and neither is less (NaN).
pub(super) fn compare(a: &Value, b: &Value, operator: &str) -> Result<Option<Ordering>, Error> {
    match (Type::of(a), Type::of(b)) {
        (Type::Undefined, _) | (_, Type::Undefined) => Err(undefined_error(format!(
            "an undefined value is used with `{operator}`"
        ))),
        (Type::Str, Type::Str) => Ok(Some(a.as_str().cmp(&b.as_str()))),
        (left, right) if left.is_number() && right.is_number() => {
            Ok(match (as_int(a), as_int(b)) {
                (Some(a), Some(b)) => Some(a.cmp(&b)),
                _ => as_float(a).partial_cmp(&as_float(b)),
            })
        }
        (Type::List, Type::List) | (Type::Tuple, Type::Tuple) => {
            let (a, b) = (items(a), items(b));
            for (a, b) in a.iter().zip(&b) {
                if !equal(a, b)? {
                    return compare(a, b, operator);
                }
            }
            Ok(Some(a.len().cmp(&b.len())))
        }
        (left, right) => Err(error(format!(
            "'{operator}' not supported between instances of '{}' and '{}'",
            left.name(),
            right.name()
        ))),
    }
}

/// `needle in container`.
pub(super) fn contains(container: &Value, needle: &Value) -> Result<bool, Error> {
    match Type::of(container) {
        Type::Undefined => Ok(false),
        Type::Str => match (container.as_str(), needle.as_str()) {
            (Some(container), Some(needle)) => Ok(container.contains(needle)),
            _ => Err(error(format!(
                "'in <string>' requires string as left operand, not {}",
                Type::of(needle).name()
            ))),
        },
        Type::Dict => Ok(dict_get(container, hashable(needle)?).is_some()),
        Type::List | Type::Tuple | Type::Iterable => {
            if needle.as_object().is_some() {
                budget::weigh(container)?;
            }
            Ok(items(container).contains(needle))
        }
        other => Err(error(format!(
            "argument of type '{}' is not iterable",
            other.name()
        ))),
    }
}

/// The value under `key`.
pub(super) fn dict_get(dict: &Value, key: &Value) -> Option<Value> {
    dict.as_object()?.get_value(key)
}

/// Refuses a key that Python cannot hash.
pub(super) fn hashable(key: &Value) -> Result<&Value, Error> {
    match Type::of(key) {
        kind @ (Type::List | Type::Dict) => {
            Err(error(format!("unhashable type: '{}'", kind.name())))
        }
        _ => Ok(key),
    }
}

/// `iter(value)`, collected.
pub(super) fn iterate(value: &Value) -> Result<Vec<Value>, Error> {
    match Type::of(value) {
        Type::Undefined => Ok(Vec::new()),
        Type::Str | Type::List | Type::Tuple | Type::Dict | Type::Iterable => Ok(items(value)),
        other => Err(error(format!("'{}' object is not iterable", other.name()))),
    }
}

/// `len(value)`.
pub(super) fn length(value: &Value) -> Result<usize, Error> {
    match Type::of(value) {
        Type::Undefined => Ok(0),
        Type::Str | Type::List | Type::Tuple | Type::Dict => Ok(value.len().unwrap_or(0)),
        Type::Iterable if !is_generator(value) => Ok(items(value).len()),
        other => Err(error(format!(
            "object of type '{}' has no len()",
            other.name()
        ))),
    }
}

/// The elements of a value that is known to be iterable.
pub(super) fn items(value: &Value) -> Vec<Value> {
    // The length of a text is found by counting; more than its characters are not to be had either way.
    let count = value
        .as_str()
        .map_or_else(|| value.len(), |text| Some(text.len()));
    budget::spend_items(count.unwrap_or(1));
    if budget::is_spent() {
        return Vec::new();
    }
    value.try_iter().map(Iterator::collect).unwrap_or_default()
}

/// The entries of a `dict`, in order.
pub(super) fn pairs(dict: &Value) -> Vec<(Value, Value)> {
    budget::spend_items(2 * dict.len().unwrap_or(1));
    if budget::is_spent() {
        return Vec::new();
    }
    let entries = dict.as_object().and_then(DynObject::try_iter_pairs);
    entries.map(Iterator::collect).unwrap_or_default()
}
