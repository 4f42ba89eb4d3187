//! Attributes, items, slices and methods: jinja2's sandboxed access to Python objects.

use std::fmt::{Formatter, Result as Written};
use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, Value};
use minijinja::{Error, ErrorKind, State};

use super::arguments::{Arguments, is_given};
use super::budget::{self, bounded};
use super::markup;
use super::operators::visit;
use super::str_methods;
use super::text;
use super::value::{
    Lazy, Type, as_float, as_int, dict_get, entries, error, hashable, items, list_like, pairs,
    undefined_error,
};
use crate::text::template_limits::data;

type Names = &'static [(Type, &'static [&'static str])];

const METHODS: Names = &[
    (Type::Str, str_methods::NAMES),
    (Type::Dict, &["copy", "get", "items", "keys", "values"]),
    (Type::List, &["copy", "count", "index"]),
    (Type::Tuple, &["count", "index"]),
    (Type::Float, &["is_integer"]),
];
/// Methods that change their object: the sandbox hides them.
#[rustfmt::skip]
const FORBIDDEN: Names = &[
    (Type::Dict, &["clear", "pop", "popitem", "setdefault", "update"]),
    (Type::List, &["append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"]),
];

fn has(table: Names, kind: Type, name: &str) -> bool {
    let names = table.iter().find(|(of, _)| *of == kind);
    names.is_some_and(|(_, names)| names.contains(&name))
}

/// Returns true if any type has a method of that name.
pub(super) fn is_member(name: &str) -> bool {
    let mut all = METHODS.iter().chain(FORBIDDEN);
    all.any(|(_, names)| names.contains(&name))
}

/// Evaluates `object.name`: Python's attribute first, then the key.
pub(super) fn attribute(object: &Value, name: &str) -> Result<Value, Error> {
    let kind = Type::from_value(object);
    if has(METHODS, kind, name) {
        data(object, &visit)?;
        let (object, name) = (object.clone(), name.to_owned());
        return Ok(Value::from_object(Method { object, name }));
    }
    if has(FORBIDDEN, kind, name) {
        return Ok(Value::UNDEFINED);
    }
    object.get_attr(name)
}

/// Evaluates `object[key]`: the item first, then the attribute of that name.
pub(super) fn item(object: &Value, key: &Value) -> Result<Value, Error> {
    let found = match (Type::from_value(object), key.as_str()) {
        (Type::Undefined, _) => {
            return Err(undefined_error(format!(
                "item {} of an undefined value",
                text::repr(key)
            )));
        }
        (Type::Dict, None) if hashable(key).is_err() => Value::UNDEFINED,
        (Type::Str | Type::List | Type::Tuple, None) if as_int(key).is_none() => Value::UNDEFINED,
        _ => object.get_item(key)?,
    };
    match (found.as_str(), key.as_str()) {
        (Some(text), _) if markup::is_markup(object) => Ok(markup::markup(text)),
        (None, Some(name)) if found.is_undefined() && is_member(name) => attribute(object, name),
        _ => Ok(found),
    }
}

/// Evaluates `object[start:stop:step]`.
pub(super) fn slice(object: &Value, bounds: [&Value; 3]) -> Result<Value, Error> {
    let bound = |value: &Value| match as_int(value) {
        None if !value.is_none() => Err(error("slice indices must be integers or None")),
        bound => Ok(bound),
    };
    let elements: Vec<Value> = match Type::from_value(object) {
        Type::Undefined => return Err(undefined_error("slice of an undefined value")),
        Type::Str | Type::List | Type::Tuple => items(object),
        other => return Err(error(format!("'{other}' object is not subscriptable"))),
    };
    let [from, to, by] = bounds.map(bound);
    let (from, to, by) = (from?, to?, by?.unwrap_or(1));
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
    if object.as_str().is_some() {
        let text: String = taken.iter().filter_map(Value::as_str).collect();
        return Ok(markup::like(object, text));
    }
    Ok(list_like(object, taken))
}

/// Evaluates `object.name(arguments)` for a method that minijinja does not know.
pub(super) fn call_method(
    state: &mut State<'_, '_>,
    object: &Value,
    name: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    budget::search(object);
    let kind = Type::from_value(object);
    if has(METHODS, kind, name) {
        return bounded(|| method(state, object, name, Arguments::new(arguments.to_vec())));
    }
    if kind == Type::Undefined {
        return Err(undefined_error(format!(
            "method `{name}` of an undefined value"
        )));
    }
    if has(FORBIDDEN, kind, name) {
        return Err(error(format!(
            "method '{name}' of '{kind}' object is unsafe"
        )));
    }
    // minijinja then looks for a dict's item of that name.
    let message = format!("'{kind}' object has no method '{name}'");
    Err(Error::new(ErrorKind::UnknownMethod, message))
}

fn method(
    state: &mut State<'_, '_>,
    object: &Value,
    name: &str,
    arguments: Arguments,
) -> Result<Value, Error> {
    match (Type::from_value(object), name) {
        (Type::Str, _) if markup::is_markup(object) => markup::call(state, object, name, arguments),
        (Type::Str, _) => str_methods::call(state, object, name, arguments),
        (Type::Dict, "get") => {
            let [key, default] = arguments.bind(name, 1, ["key", "default"])?;
            let found = dict_get(object, hashable(&key)?);
            let default = Some(default).filter(is_given);
            Ok(found.or(default).unwrap_or_else(|| Value::from(())))
        }
        (Type::Dict, "items" | "keys" | "values") => {
            let [] = arguments.bind(name, 0, [])?;
            let (keys, values) = pairs(object).into_iter().unzip();
            let (view, items) = match name {
                "items" => ("dict_items", entries(object)),
                "keys" => ("dict_keys", keys),
                _ => ("dict_values", values),
            };
            let view = Some(view);
            Ok(Value::from_object(Lazy { view, items }))
        }
        (_, "copy") => {
            let [] = arguments.bind(name, 0, [])?;
            Ok(object.clone())
        }
        (_, "count" | "index") => {
            let [wanted] = arguments.bind(name, 1, ["value"])?;
            budget::weigh(object)?;
            let items = items(object);
            if name == "count" {
                return Ok(Value::from(
                    items.iter().filter(|item| **item == wanted).count(),
                ));
            }
            let missing = || error(format!("{} is not in list", text::repr(&wanted)));
            let found = items.iter().position(|item| *item == wanted);
            found.map(Value::from).ok_or_else(missing)
        }
        _ => {
            let [] = arguments.bind(name, 0, [])?;
            let is_integer = as_float(object).is_some_and(|float| float.fract() == 0.0);
            Ok(Value::from(is_integer))
        }
    }
}

/// A method that was named and not called. It is true, and can be called later.
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
        let kind = Type::from_value(&self.object);
        write!(f, "<built-in method {} of {kind} object>", self.name)
    }
}
