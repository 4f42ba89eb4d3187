//! Attributes, items, slices and methods: jinja2's sandboxed access to Python objects.

use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, Tuple, Value, ValueKind};
use minijinja::{Error, State};

use super::budget;
use super::call::{Arguments, required};
use super::markup;
use super::str_methods;
use super::text;
use super::value::{
    DictView, Type, as_int, dict_get, equal, error, hashable, items, pairs, undefined_error,
};

/// What a type's attribute `name` is to a sandboxed template.
enum Member {
    Method,
    /// It exists and changes the object: the sandbox hides it.
    Forbidden,
    Missing,
}

fn member(kind: Type, name: &str) -> Member {
    match (kind, name) {
        (Type::Str, name) if str_methods::NAMES.contains(&name) => Member::Method,
        (Type::Dict, "get" | "items" | "keys" | "values" | "copy")
        | (Type::List, "count" | "index" | "copy")
        | (Type::Tuple, "count" | "index")
        | (Type::Float, "is_integer") => Member::Method,
        (Type::Dict, "clear" | "pop" | "popitem" | "setdefault" | "update")
        | (
            Type::List,
            "append" | "clear" | "extend" | "insert" | "pop" | "remove" | "reverse" | "sort",
        ) => Member::Forbidden,
        _ => Member::Missing,
    }
}

/// `object.name`: Python's attribute first, then the key.
pub(crate) fn attribute(object: &Value, name: &str) -> Result<Value, Error> {
    let kind = Type::of(object);
    match kind {
        Type::Undefined => Err(undefined_error(format!(
            "attribute `{name}` of an undefined value"
        ))),
        Type::Object => Ok(object.get_attr(name).unwrap_or_default()),
        _ => Ok(match member(kind, name) {
            Member::Method => Value::from_object(Method {
                object: object.clone(),
                name: name.to_owned(),
            }),
            Member::Missing if kind == Type::Dict => {
                dict_get(object, &Value::from(name)).unwrap_or_default()
            }
            Member::Forbidden | Member::Missing => Value::UNDEFINED,
        }),
    }
}

/// `object[key]`: the item first, then the attribute of that name.
pub(crate) fn item(object: &Value, key: &Value) -> Result<Value, Error> {
    let found = match Type::of(object) {
        Type::Undefined => {
            return Err(undefined_error(format!(
                "item {} of an undefined value",
                text::repr(key)
            )));
        }
        Type::Dict if hashable(key).is_ok() => dict_get(object, key),
        Type::Str => as_int(key).and_then(|index| {
            budget::search(object);
            let text = object.as_str()?;
            let index = if index < 0 {
                index + text.chars().count() as i128
            } else {
                index
            };
            text.chars()
                .nth(usize::try_from(index).ok()?)
                .map(|c| markup::like(object, c.to_string()))
        }),
        Type::List | Type::Tuple => as_int(key).and_then(|index| {
            let index = if index < 0 {
                index + object.len()? as i128
            } else {
                index
            };
            object.get_item_by_index(usize::try_from(index).ok()?).ok()
        }),
        Type::Object => object
            .get_item(key)
            .ok()
            .filter(|value| !value.is_undefined()),
        _ => None,
    };
    match (found, key.as_str()) {
        (Some(value), _) => Ok(value),
        (None, Some(name)) => attribute(object, name),
        (None, None) => Ok(Value::UNDEFINED),
    }
}

/// `object[start:stop:step]`.
pub(crate) fn slice(
    object: &Value,
    start: &Value,
    end: &Value,
    step: &Value,
) -> Result<Value, Error> {
    let bound = |value: &Value| -> Result<Option<i128>, Error> {
        match as_int(value) {
            None if !value.is_none() => Err(error(
                "slice indices must be integers or None or have an __index__ method",
            )),
            bound => Ok(bound),
        }
    };
    let kind = Type::of(object);
    let elements: Vec<Value> = match kind {
        Type::Undefined => return Err(undefined_error("slice of an undefined value")),
        Type::Str => {
            let text = object.as_str().unwrap_or_default();
            budget::spend_items(text.len());
            budget::check()?;
            text.chars().map(|c| Value::from(c.to_string())).collect()
        }
        Type::List | Type::Tuple => items(object),
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
    Ok(match kind {
        Type::Str => {
            let text: String = taken.iter().filter_map(Value::as_str).collect();
            markup::like(object, text)
        }
        Type::Tuple => Value::from(Tuple::from(taken)),
        _ => Value::from(taken),
    })
}

/// `object.name(arguments)`.
pub(crate) fn call_method(
    state: &mut State<'_, '_>,
    object: &Value,
    name: &str,
    arguments: Vec<Value>,
) -> Result<Value, Error> {
    let kind = Type::of(object);
    match (kind, member(kind, name)) {
        (Type::Undefined, _) => Err(undefined_error(format!(
            "method `{name}` of an undefined value"
        ))),
        (Type::Object, _) => object.call_method(state, name, &arguments),
        (_, Member::Method) => method(object, name, Arguments::new(arguments)),
        (_, Member::Forbidden) => Err(error(format!(
            "access to attribute '{name}' of '{}' object is unsafe",
            kind.name()
        ))),
        (_, Member::Missing) => match attribute(object, name)? {
            value if value.is_undefined() => Err(undefined_error(format!(
                "'{} object' has no attribute '{name}'",
                kind.name()
            ))),
            value if value.kind() == ValueKind::Plain || Type::of(&value) == Type::Object => {
                value.call(state, &arguments)
            }
            value => Err(error(format!(
                "'{}' object is not callable",
                Type::of(&value).name()
            ))),
        },
    }
}

fn method(object: &Value, name: &str, arguments: Arguments) -> Result<Value, Error> {
    match (Type::of(object), name) {
        (Type::Str, _) if markup::is_markup(object) => {
            markup::call(object.as_str().unwrap_or_default(), name, arguments)
        }
        (Type::Str, _) => str_methods::call(object.as_str().unwrap_or_default(), name, arguments),
        (Type::Dict, "get") => {
            let [key, default] = arguments.bind(name, ["key", "default"])?;
            let key = required(name, "key", key)?;
            Ok(dict_get(object, hashable(&key)?)
                .or(default)
                .unwrap_or_else(|| Value::from(())))
        }
        (Type::Dict, "items" | "keys" | "values") => {
            let [] = arguments.bind(name, [])?;
            let entries = pairs(object).into_iter();
            Ok(Value::from_object(match name {
                "items" => DictView {
                    name: "dict_items",
                    items: entries
                        .map(|(key, value)| Value::from(Tuple::from([key, value])))
                        .collect(),
                },
                "keys" => DictView {
                    name: "dict_keys",
                    items: entries.map(|(key, _)| key).collect(),
                },
                _ => DictView {
                    name: "dict_values",
                    items: entries.map(|(_, value)| value).collect(),
                },
            }))
        }
        (_, "copy") => {
            let [] = arguments.bind(name, [])?;
            Ok(object.clone())
        }
        (_, "count" | "index") => {
            let [wanted] = arguments.bind(name, ["value"])?;
            let wanted = required(name, "value", wanted)?;
            let elements = items(object);
            if name == "count" {
                return Ok(Value::from(
                    elements.iter().filter(|item| equal(item, &wanted)).count(),
                ));
            }
            elements
                .iter()
                .position(|item| equal(item, &wanted))
                .map(Value::from)
                .ok_or_else(|| error(format!("{} is not in list", text::repr(&wanted))))
        }
        (_, "is_integer") => Ok(Value::from(
            f64::try_from(object.clone()).is_ok_and(|float| float.fract() == 0.0),
        )),
        (kind, _) => Err(error(format!(
            "'{}' object has no attribute '{name}'",
            kind.name()
        ))),
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
        call_method(state, &self.object, &self.name, arguments.to_vec())
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "<built-in method {} of {} object>",
            self.name,
            Type::of(&self.object).name()
        )
    }
}
