//! Python's view of a value: its type, order, membership and iteration.

use std::cmp::Ordering;
use std::fmt::{Display, Formatter, Result as Written};
use std::sync::Arc;

use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr, Tuple, Value, ValueKind};
use minijinja::{Error, ErrorKind};

use super::budget;
use crate::text::template_limits::is_dict;

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
    /// Iterable, but not a list: a dict's view, or the result of `map`.
    Iterable,
    /// Other objects: macros, namespaces, the `loop` variable, functions.
    Object,
}

impl Type {
    pub(super) fn from_value(value: &Value) -> Self {
        match value.kind() {
            ValueKind::Undefined => Self::Undefined,
            ValueKind::None => Self::None,
            ValueKind::Bool => Self::Bool,
            ValueKind::Number if value.is_integer() => Self::Int,
            ValueKind::Number => Self::Float,
            ValueKind::String => Self::Str,
            ValueKind::Seq if value.is_tuple() => Self::Tuple,
            ValueKind::Seq => Self::List,
            ValueKind::Map if value.as_object().is_some_and(is_dict) => Self::Dict,
            ValueKind::Iterable => Self::Iterable,
            _ => Self::Object,
        }
    }

    fn is_number(self) -> bool {
        matches!(self, Self::Bool | Self::Int | Self::Float)
    }
}

/// Writes the name that Python's error messages use.
impl Display for Type {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        f.write_str(match self {
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
        })
    }
}

/// Creates an error such as Python's `TypeError` or `ValueError`.
pub(super) fn error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// A result of filters and `dict.items()`: it can be iterated, and has no index.
#[derive(Debug)]
pub(super) struct Lazy {
    /// A generator is always true and has no length. Other results are views of a dict.
    is_generator: bool,
    items: Vec<Value>,
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
        self.is_generator || !self.items.is_empty()
    }
}

/// Creates a generator.
pub(super) fn generator(items: Vec<Value>) -> Value {
    let is_generator = true;
    Value::from_object(Lazy {
        is_generator,
        items,
    })
}

/// Creates a view of a dict.
pub(super) fn view(items: Vec<Value>) -> Value {
    let is_generator = false;
    Value::from_object(Lazy {
        is_generator,
        items,
    })
}

pub(super) fn is_generator(value: &Value) -> bool {
    value
        .downcast_object_ref::<Lazy>()
        .is_some_and(|lazy| lazy.is_generator)
}

pub(super) fn as_int(value: &Value) -> Option<i128> {
    match Type::from_value(value) {
        Type::Bool => Some(i128::from(value.is_true())),
        Type::Int => i128::try_from(value.clone()).ok(),
        _ => None,
    }
}

pub(super) fn as_float(value: &Value) -> Option<f64> {
    match Type::from_value(value) {
        Type::Float => f64::try_from(value.clone()).ok(),
        _ => as_int(value).map(|int| int as f64),
    }
}

/// Returns an integer in the smallest representation that holds it.
pub(super) fn from_int(int: i128) -> Value {
    i64::try_from(int).map_or_else(|_| Value::from(int), Value::from)
}

/// Evaluates `a == b`.
pub(super) fn equal(a: &Value, b: &Value) -> Result<bool, Error> {
    if a.as_object().is_some() && b.as_object().is_some() {
        budget::weigh(a)?;
        budget::weigh(b)?;
    }
    Ok(a == b)
}

/// Compares two values for `a < b` and similar operators; `Ok(None)` if Python can compare them and
/// neither is less (NaN).
pub(super) fn compare(a: &Value, b: &Value, operator: &str) -> Result<Option<Ordering>, Error> {
    match (Type::from_value(a), Type::from_value(b)) {
        (Type::Undefined, _) | (_, Type::Undefined) => {
            let message = format!("an undefined value is used with `{operator}`");
            Err(error(message))
        }
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
            "'{operator}' not supported between instances of '{left}' and '{right}'"
        ))),
    }
}

/// Evaluates `needle in container`.
pub(super) fn contains(container: &Value, needle: &Value) -> Result<bool, Error> {
    match (Type::from_value(container), Type::from_value(needle)) {
        (Type::Undefined, _) => Ok(false),
        (Type::Str, Type::Str) => {
            let texts = container.as_str().zip(needle.as_str());
            Ok(texts.is_some_and(|(container, needle)| container.contains(needle)))
        }
        (Type::Str, other) => Err(error(format!(
            "'in <string>' requires string as left operand, not {other}"
        ))),
        (Type::Dict, _) => Ok(dict_get(container, needle).is_some()),
        (Type::List | Type::Tuple | Type::Iterable, _) => {
            if needle.as_object().is_some() {
                budget::weigh(container)?;
            }
            Ok(items(container).contains(needle))
        }
        (other, _) => Err(error(format!("argument of type '{other}' is not iterable"))),
    }
}

/// Returns the value under a key of a `dict`, as Python compares keys.
pub(super) fn dict_get(dict: &Value, key: &Value) -> Option<Value> {
    dict.as_object()?.get_value(key)
}

/// Returns true for types that Python can iterate. An undefined value has no items.
pub(super) fn is_iterable(kind: Type) -> bool {
    let sized = [
        Type::Undefined,
        Type::Str,
        Type::List,
        Type::Tuple,
        Type::Dict,
    ];
    kind == Type::Iterable || sized.contains(&kind)
}

/// Evaluates `iter(value)` and collects the items.
pub(super) fn iterate(value: &Value) -> Result<Vec<Value>, Error> {
    match Type::from_value(value) {
        kind if is_iterable(kind) => Ok(items(value)),
        kind => Err(error(format!("'{kind}' object is not iterable"))),
    }
}

/// Evaluates `len(value)`.
pub(super) fn length(value: &Value) -> Result<usize, Error> {
    match Type::from_value(value) {
        Type::Undefined => Ok(0),
        kind if is_iterable(kind) && !is_generator(value) => {
            Ok(value.len().unwrap_or_else(|| items(value).len()))
        }
        kind => Err(error(format!("object of type '{kind}' has no len()"))),
    }
}

/// Returns the elements of a value that is known to be iterable.
pub(super) fn items(value: &Value) -> Vec<Value> {
    // Counting the characters of a text takes time. Its number of bytes is an upper bound.
    let count = value
        .as_str()
        .map_or_else(|| value.len(), |text| Some(text.len()));
    budget::spend_items(count.unwrap_or(1));
    if budget::is_spent() {
        return Vec::new();
    }
    value.try_iter().map(Iterator::collect).unwrap_or_default()
}

/// Returns the entries of a `dict`, in order.
pub(super) fn pairs(dict: &Value) -> Vec<(Value, Value)> {
    budget::spend_items(2 * dict.len().unwrap_or(1));
    if budget::is_spent() {
        return Vec::new();
    }
    let entries = dict.as_object().and_then(DynObject::try_iter_pairs);
    entries.map(Iterator::collect).unwrap_or_default()
}

/// Returns the entries of a `dict` as tuples.
pub(super) fn entries(dict: &Value) -> Vec<Value> {
    let tuple = |(key, value)| Value::from(Tuple::from([key, value]));
    pairs(dict).into_iter().map(tuple).collect()
}

/// Creates a list, or a tuple if `model` is one.
pub(super) fn list_like(model: &Value, items: Vec<Value>) -> Value {
    if model.is_tuple() {
        return Value::from(Tuple::from(items));
    }
    Value::from(items)
}
