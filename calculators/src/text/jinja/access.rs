//! Attributes, items, slices and methods: jinja2's sandboxed access to Python objects.

use std::fmt::{Formatter, Result as Written};
use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, Tuple, Value};
use minijinja::{Error, ErrorKind, State};

use super::arguments::{Arguments, required};
use super::budget;
use super::functions::bounded;
use super::markup;
use super::str_methods;
use super::text;
use super::value::{
    Lazy, Type, as_float, as_int, dict_get, error, hashable, items, pairs, undefined_error,
};

const METHODS: &[(Type, &[&str])] = &[
    (Type::Str, str_methods::NAMES),
    (Type::Dict, &["copy", "get", "items", "keys", "values"]),
    (Type::List, &["copy", "count", "index"]),
    (Type::Tuple, &["count", "index"]),
    (Type::Float, &["is_integer"]),
];
/// Methods that change their object: the sandbox hides them.
const FORBIDDEN: &[(Type, &[&str])] = &[
    (
        Type::Dict,
        &["clear", "pop", "popitem", "setdefault", "update"],
    ),
    (
        Type::List,
        &[
            "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort",
        ],
    ),
];

fn has(table: &[(Type, &[&str])], kind: Type, name: &str) -> bool {
    table
        .iter()
        .any(|(of, names)| *of == kind && names.contains(&name))
}

/// Whether any type has a method of that name.
pub(super) fn is_member(name: &str) -> bool {
    METHODS
        .iter()
        .chain(FORBIDDEN)
        .any(|(_, names)| names.contains(&name))
}

/// `object.name`: Python's attribute first, then the key.
pub(super) fn attribute(object: &Value, name: &str) -> Result<Value, Error> {
    let kind = Type::of(object);
    if has(METHODS, kind, name) {
        let (object, name) = (object.clone(), name.to_owned());
        return Ok(Value::from_object(Method { object, name }));
    }
    if has(FORBIDDEN, kind, name) {
        return Ok(Value::UNDEFINED);
    }
    object.get_attr(name)
}

/// `object[key]`: the item first, then the attribute of that name.
pub(super) fn item(object: &Value, key: &Value) -> Result<Value, Error> {
    let found = match (Type::of(object), key.as_str()) {
        (Type::Undefined, _) => {
            return Err(undefined_error(format!(
                "item {} of an undefined value",
                text::repr(key)
            )));
        }
        (Type::Dict, None) if hashable(key).is_err() => Value::UNDEFINED,
        _ => object.get_item(key)?,
    };
    match (found.as_str(), key.as_str()) {
        (Some(text), _) if markup::is_markup(object) => Ok(markup::markup(text)),
        (None, Some(name)) if found.is_undefined() && is_member(name) => attribute(object, name),
        _ => Ok(found),
    }
}

/// `object[start:stop:step]`.
pub(super) fn slice(
    object: &Value,
    start: &Value,
    end: &Value,
    step: &Value,
) -> Result<Value, Error> {
    let bound = |value: &Value| match as_int(value) {
        None if !value.is_none() => Err(error(
            "slice indices must be integers or None or have an __index__ method",
        )),
        bound => Ok(bound),
    };
    let elements: Vec<Value> = match Type::of(object) {
        Type::Undefined => return Err(undefined_error("slice of an undefined value")),
        Type::Str | Type::List | Type::Tuple => items(object),
        other => {
            return Err(error(format!(
                "'{}' object is not subscriptable",
                other.name()
            )));
        }
    };
    let (from, to, by) = (bound(start)?, bound(end)?, bound(step)?.unwrap_or(1));
    if by == 0 {
        return Err(error("slice step cannot be zero"));
    }
    let len = elements.len() as i128;
    let (lowest, highest) = if by > 0 { (0, len) } else { (-1, len - 1) };
    let place = |at: i128| if at < 0 { at.saturating_add(len) } else { at }.clamp(lowest, highest);
    let mut at = from.map_or(if by > 0 { lowest } else { highest }, place);
    let last = to.map_or(if by > 0 { highest } else { lowest }, place);
    let mut taken = Vec::new();
    while if by > 0 { at < last } else { at > last } {
        taken.push(elements[at as usize].clone());
        at = at.saturating_add(by);
    }
    Ok(match Type::of(object) {
        Type::Str => markup::like(
            object,
            taken.iter().filter_map(Value::as_str).collect::<String>(),
        ),
        Type::Tuple => Value::from(Tuple::from(taken)),
        _ => Value::from(taken),
    })
}

/// `object.name(arguments)`, where minijinja knows no such method.
pub(super) fn call_method(
    state: &mut State<'_, '_>,
    object: &Value,
    name: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    budget::search(object);
    let kind = Type::of(object);
    if has(METHODS, kind, name) {
        return bounded(|| method(state, object, name, Arguments::new(arguments.to_vec())));
    }
    Err(if kind == Type::Undefined {
        undefined_error(format!("method `{name}` of an undefined value"))
    } else if has(FORBIDDEN, kind, name) {
        error(format!(
            "access to attribute '{name}' of '{}' object is unsafe",
            kind.name()
        ))
    } else {
        // minijinja goes on to what a dict has under that name
        Error::new(
            ErrorKind::UnknownMethod,
            format!("'{} object' has no attribute '{name}'", kind.name()),
        )
    })
}

fn method(
    state: &mut State<'_, '_>,
    object: &Value,
    name: &str,
    arguments: Arguments,
) -> Result<Value, Error> {
    match (Type::of(object), name) {
        (Type::Str, _) if markup::is_markup(object) => markup::call(state, object, name, arguments),
        (Type::Str, _) => str_methods::call(state, object, name, arguments),
        (Type::Dict, "get") => {
            let [key, default] = arguments.bind(name, ["key", "default"])?;
            let found = dict_get(object, hashable(&required(name, "key", key)?)?);
            Ok(found.or(default).unwrap_or_else(|| Value::from(())))
        }
        (Type::Dict, "items" | "keys" | "values") => {
            let [] = arguments.bind(name, [])?;
            let entries = pairs(object).into_iter();
            let (view, items) = match name {
                "items" => (
                    "dict_items",
                    entries
                        .map(|(k, v)| Value::from(Tuple::from([k, v])))
                        .collect(),
                ),
                "keys" => ("dict_keys", entries.map(|(key, _)| key).collect()),
                _ => ("dict_values", entries.map(|(_, value)| value).collect()),
            };
            Ok(Value::from_object(Lazy {
                view: Some(view),
                items,
            }))
        }
        (_, "copy") => {
            let [] = arguments.bind(name, [])?;
            Ok(object.clone())
        }
        (_, "count" | "index") => {
            let [wanted] = arguments.bind(name, ["value"])?;
            let wanted = required(name, "value", wanted)?;
            budget::weigh(object)?;
            let mut places = items(object)
                .into_iter()
                .enumerate()
                .filter(|(_, item)| *item == wanted);
            if name == "count" {
                return Ok(Value::from(places.count()));
            }
            let found = places.next().map(|(place, _)| place);
            found
                .map(Value::from)
                .ok_or_else(|| error(format!("{} is not in list", text::repr(&wanted))))
        }
        _ => {
            let [] = arguments.bind(name, [])?;
            Ok(Value::from(
                as_float(object).is_some_and(|float| float.fract() == 0.0),
            ))
        }
    }
}

/// A method that was named and not called: always true, callable later.
#[derive(Debug)]
struct Method {
    object: Value,
    name: String,
}

impl Object for Method {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(
        self: &Arc<Self>,
        state: &mut State<'_, '_>,
        arguments: &[Value],
    ) -> Result<Value, Error> {
        call_method(state, &self.object, &self.name, arguments)
    }

    fn render(self: &Arc<Self>, f: &mut Formatter<'_>) -> Written {
        let kind = Type::of(&self.object).name();
        write!(f, "<built-in method {} of {kind} object>", self.name)
    }
}
