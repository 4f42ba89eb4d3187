//! Filters that follow paths, compare items, or apply other filters and tests.

use std::cmp::Ordering;

use minijinja::value::{Tuple, Value};
use minijinja::{Error, State};

use super::access;
use super::arguments::{Arguments, is_given, or, text, text_or_none};
use super::budget;
use super::operators::add;
use super::text::{str, weighed};
use super::value::{Type, compare, entries, error, generator, iterate};

/// Follows a path such as `a.b.0`. An absent path is the value itself.
fn follow(value: &Value, path: &Value, missing: &Value) -> Result<Value, Error> {
    let mut current = value.clone();
    if !is_given(path) || path.is_none() {
        return Ok(current);
    }
    for part in str(path).split('.') {
        let index = part.parse::<i64>().map(Value::from);
        current = access::item(&current, &index.unwrap_or_else(|_| Value::from(part)))?;
        if current.is_undefined() && is_given(missing) && !missing.is_none() {
            current = missing.clone();
        }
    }
    Ok(current)
}

/// Returns the value by which an item is compared. Text is folded unless `exact` is true.
fn folded(item: &Value, path: &Value, missing: &Value, exact: &Value) -> Result<Value, Error> {
    let key = follow(item, path, missing)?;
    Ok(match key.as_str() {
        Some(text) if !exact.is_true() => {
            budget::take(text.len())?;
            Value::from(text.to_lowercase())
        }
        _ => key,
    })
}

/// Returns the items of a value with their keys.
fn keyed(
    value: &Value,
    key: impl Fn(&Value) -> Result<Value, Error>,
) -> Result<Vec<(Value, Value)>, Error> {
    let items = iterate(value)?.into_iter();
    items.map(|item| Ok((key(&item)?, item))).collect()
}

/// Sorts by key, stably. Fails if Python cannot compare two keys.
fn sorted(mut keyed: Vec<(Value, Value)>, reverse: &Value) -> Result<Vec<(Value, Value)>, Error> {
    let mut failure = None;
    keyed.sort_by(|(a, _), (b, _)| {
        let order = compare(a, b, "<").unwrap_or_else(|cause| {
            failure.get_or_insert(cause);
            None
        });
        let order = order.unwrap_or(Ordering::Equal);
        if reverse.is_true() {
            order.reverse()
        } else {
            order
        }
    });
    failure.map_or(Ok(keyed), Err)
}

/// Returns the items without their keys.
fn items_of(keyed: Vec<(Value, Value)>) -> Vec<Value> {
    keyed.into_iter().map(|(_, item)| item).collect()
}

pub(super) fn sort(name: &str, value: &Value, arguments: Arguments) -> Result<Value, Error> {
    let names = ["reverse", "case_sensitive", "attribute"];
    let [reverse, exact, paths] = arguments.bind(name, 0, names)?;
    let is_path = is_given(&paths) && !paths.is_none();
    let paths = str(&paths);
    let keys = |item: &Value| {
        let keys = paths.split(',').map(Value::from);
        let keys = keys.map(|path| folded(item, &path, &Value::UNDEFINED, &exact));
        keys.collect::<Result<Vec<_>, Error>>().map(Value::from)
    };
    let none = &Value::from(());
    let keyed = if is_path {
        keyed(value, keys)?
    } else {
        keyed(value, |item| folded(item, none, none, &exact))?
    };
    Ok(Value::from(items_of(sorted(keyed, &reverse)?)))
}

/// Applies `min` or `max`.
pub(super) fn extreme(name: &str, value: &Value, arguments: Arguments) -> Result<Value, Error> {
    let [exact, path] = arguments.bind(name, 0, ["case_sensitive", "attribute"])?;
    let keyed = keyed(value, |item| folded(item, &path, &Value::UNDEFINED, &exact))?;
    let sorted = sorted(keyed, &Value::from(name == "max"))?;
    Ok(items_of(sorted).into_iter().next().unwrap_or_default())
}

pub(super) fn sum(name: &str, value: &Value, arguments: Arguments) -> Result<Value, Error> {
    let [path, start] = arguments.bind(name, 0, ["attribute", "start"])?;
    let mut total = or(start, 0);
    for item in iterate(value)? {
        total = add(&total, &follow(&item, &path, &Value::UNDEFINED)?)?;
    }
    Ok(total)
}

/// Applies `map(attribute=..)`, or `map("filter", arguments..)`. A false value, such as `none`,
/// gives no items.
pub(super) fn map(
    state: &mut State<'_, '_>,
    value: &Value,
    mut arguments: Arguments,
) -> Result<Vec<Value>, Error> {
    if !value.is_true() {
        return Ok(Vec::new());
    }
    let items = iterate(value)?.into_iter();
    let Some(filter) = arguments.next() else {
        let [path, missing] = arguments.bind("map", 1, ["attribute", "default"])?;
        return items.map(|item| follow(&item, &path, &missing)).collect();
    };
    let filter = text("map", &filter)?;
    let mut values = [vec![Value::UNDEFINED], arguments.into_values()].concat();
    let apply = |item| {
        values[0] = item;
        state.apply_filter(&filter, &values)
    };
    items.map(apply).collect()
}

/// Applies `select`, `reject` or their `attr` forms, with a test by name, or truth. A false value,
/// such as `none`, gives no items.
pub(super) fn select(
    state: &mut State<'_, '_>,
    name: &str,
    value: &Value,
    mut arguments: Arguments,
) -> Result<Vec<Value>, Error> {
    if !value.is_true() {
        return Ok(Vec::new());
    }
    let path = match name {
        "select" | "reject" => Value::from(()),
        _ => arguments
            .next()
            .ok_or_else(|| error(format!("`{name}` needs an attribute")))?,
    };
    let test = text_or_none(name, &arguments.next().unwrap_or_else(|| Value::from(())))?;
    let mut values = [vec![Value::UNDEFINED], arguments.into_values()].concat();
    let mut kept = Vec::new();
    for item in iterate(value)? {
        values[0] = follow(&item, &path, &Value::UNDEFINED)?;
        let holds = match &test {
            None => values[0].is_true(),
            Some(test) => {
                budget::search(&values[0]);
                budget::check()?;
                state.perform_test(test, &values)?
            }
        };
        if holds == name.starts_with("select") {
            kept.push(item);
        }
    }
    Ok(kept)
}

pub(super) fn dictsort(name: &str, value: &Value, arguments: Arguments) -> Result<Value, Error> {
    let [exact, by, reverse] = arguments.bind(name, 0, ["case_sensitive", "by", "reverse"])?;
    let place = match (Type::from_value(value), str(&or(by, "key")).as_str()) {
        (Type::Dict, "key") => Value::from(0),
        (Type::Dict, "value") => Value::from(1),
        (kind, by) => return Err(error(format!("cannot sort '{kind}' by '{by}'"))),
    };
    let entries = Value::from(entries(value));
    let keyed = keyed(&entries, |entry| {
        folded(entry, &place, &Value::UNDEFINED, &exact)
    })?;
    Ok(Value::from(items_of(sorted(keyed, &reverse)?)))
}

pub(super) fn groupby(name: &str, value: &Value, arguments: Arguments) -> Result<Value, Error> {
    let names = ["attribute", "default", "case_sensitive"];
    let [path, missing, case_sensitive] = arguments.bind(name, 1, names)?;
    let keyed = keyed(value, |item| folded(item, &path, &missing, &case_sensitive))?;
    let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
    for (key, item) in sorted(keyed, &Value::UNDEFINED)? {
        match groups.last_mut() {
            Some((last, members)) if *last == key => members.push(item),
            _ => groups.push((key, vec![item])),
        }
    }
    let group = |(_, members): (Value, Vec<Value>)| {
        let grouper = follow(&members[0], &path, &missing)?;
        Ok(Value::from(Tuple::from([grouper, Value::from(members)])))
    };
    groups
        .into_iter()
        .map(group)
        .collect::<Result<Vec<_>, _>>()
        .map(Value::from)
}

pub(super) fn unique(name: &str, value: &Value, arguments: Arguments) -> Result<Value, Error> {
    let [case_sensitive, path] = arguments.bind(name, 0, ["case_sensitive", "attribute"])?;
    let mut kept: Vec<(Value, Value)> = Vec::new();
    budget::weigh(value)?;
    let key = |item: &Value| folded(item, &path, &Value::UNDEFINED, &case_sensitive);
    for (key, item) in keyed(value, key)? {
        budget::spend_items(kept.len());
        budget::check()?;
        if !kept.iter().any(|(other, _)| *other == key) {
            kept.push((key, item));
        }
    }
    Ok(generator(items_of(kept)))
}

pub(super) fn join(name: &str, value: &Value, arguments: Arguments) -> Result<Value, Error> {
    let [separator, path] = arguments.bind(name, 0, ["d", "attribute"])?;
    let separator = or(separator, "");
    let separator = weighed(&separator)?;
    let mut joined = String::new();
    for (index, item) in iterate(value)?.iter().enumerate() {
        let item = follow(item, &path, &Value::UNDEFINED)?;
        let item = weighed(&item)?;
        budget::take(separator.len() + item.len())?;
        joined.push_str(if index > 0 { &separator } else { "" });
        joined.push_str(&item);
    }
    Ok(Value::from(joined))
}
