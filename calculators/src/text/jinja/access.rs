//! Attributes, items, slices and methods: jinja2's sandboxed access to Python objects.

use std::fmt::{Formatter, Result as Written};
use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, Value};
use minijinja::{Error, ErrorKind, State};

use super::arguments::Arguments;
use super::budget::{self, bounded};
use super::operators::visit;
use super::str_methods;
use super::text;
use super::value::{Type, as_int, dict_get, entries, error, items, list_like, pairs, view};
use crate::text::template_limits::data;

const METHODS: &[(Type, &[&str])] = &[
    (Type::Str, str_methods::NAMES),
    (Type::Dict, &["get", "items", "keys", "values"]),
    (Type::List, &["count", "index"]),
    (Type::Tuple, &["count", "index"]),
];

fn has_method(kind: Type, name: &str) -> bool {
    let names = METHODS.iter().find(|(of, _)| *of == kind);
    names.is_some_and(|(_, names)| names.contains(&name))
}

/// Returns true if any type has a method of that name.
pub(super) fn is_member(name: &str) -> bool {
    METHODS.iter().any(|(_, names)| names.contains(&name))
}

/// Evaluates `object.name`: Python's attribute first, then the key.
pub(super) fn attribute(object: &Value, name: &str) -> Result<Value, Error> {
    if has_method(Type::from_value(object), name) {
        data(object, &visit)?;
        let (object, name) = (object.clone(), name.to_owned());
        return Ok(Value::from_object(Method { object, name }));
    }
    object.get_attr(name)
}

/// Evaluates `object[key]`: the item first, then the attribute of that name.
pub(super) fn item(object: &Value, key: &Value) -> Result<Value, Error> {
    let found = match (Type::from_value(object), key.as_str()) {
        (Type::Undefined, _) => {
            return Err(error(format!(
                "item {} of an undefined value",
                text::repr(key)
            )));
        }
        (Type::Str | Type::List | Type::Tuple, None) if as_int(key).is_none() => Value::UNDEFINED,
        _ => object.get_item(key)?,
    };
    match key.as_str() {
        Some(name) if found.is_undefined() && is_member(name) => attribute(object, name),
        _ => Ok(found),
    }
}

/// Evaluates `object[start:stop:step]`.
pub(super) fn slice(object: &Value, bounds: [&Value; 3]) -> Result<Value, Error> {
    let bound = |value: &Value| match as_int(value) {
        None if !value.is_none() => Err(error("slice indices must be integers or None")),
        bound => Ok(bound),
    };
    let elements = match Type::from_value(object) {
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
    let first = from.map_or(if by > 0 { lowest } else { highest }, place);
    let end = to.map_or(if by > 0 { highest } else { lowest }, place);
    let places = std::iter::successors(Some(first), |at| Some(at.saturating_add(by)));
    let places = places.take_while(|at| if by > 0 { *at < end } else { *at > end });
    let taken: Vec<Value> = places.map(|at| elements[at as usize].clone()).collect();
    if object.as_str().is_some() {
        let text: String = taken.iter().filter_map(Value::as_str).collect();
        return Ok(Value::from(text));
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
    if has_method(kind, name) {
        return bounded(|| method(state, object, name, Arguments::new(arguments.to_vec())));
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
        (Type::Str, _) => str_methods::call(state, object, name, arguments),
        (Type::Dict, "get") => {
            let [key, default] = arguments.bind(name, 1, ["key", "default"])?;
            let found = dict_get(object, &key.unwrap_or_default());
            Ok(found.or(default).unwrap_or_else(|| Value::from(())))
        }
        (Type::Dict, _) => {
            let [] = arguments.bind(name, 0, [])?;
            let (keys, values) = pairs(object).into_iter().unzip();
            Ok(view(match name {
                "items" => entries(object),
                "keys" => keys,
                _ => values,
            }))
        }
        _ => {
            let [wanted] = arguments.bind(name, 1, ["value"])?;
            budget::weigh(object)?;
            let (wanted, items) = (wanted.unwrap_or_default(), items(object));
            if name == "count" {
                let count = items.iter().filter(|item| **item == wanted).count();
                return Ok(Value::from(count));
            }
            let missing = || error(format!("{} is not in list", text::repr(&wanted)));
            let found = items.iter().position(|item| *item == wanted);
            found.map(Value::from).ok_or_else(missing)
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
