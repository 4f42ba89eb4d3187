//! Filters on sequences and mappings.

use std::cmp::Ordering;

use minijinja::value::{Tuple, Value};
use minijinja::{Error, State};

use super::super::python::access;
use super::super::python::budget;
use super::super::python::call::{Arguments, flag, int_or_none, required, text_or_none};
use super::super::python::markup;
use super::super::python::ops;
use super::super::python::text::str;
use super::super::python::value::{
    self as python, Type, compare, equal, error, generator, iterate, pairs,
};

pub(super) fn length(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [] = arguments.bind(name, [])?;
    python::length(value).map(Value::from)
}

pub(super) fn default(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [default, boolean] = arguments.bind(name, ["default_value", "boolean"])?;
    let replaced = value.is_undefined() || (flag(boolean.as_ref()) && !value.is_true());
    Ok(if replaced {
        default.unwrap_or_else(|| Value::from(""))
    } else {
        value.clone()
    })
}

pub(super) fn first(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [] = arguments.bind(name, [])?;
    Ok(iterate(value)?.into_iter().next().unwrap_or_default())
}

pub(super) fn last(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [] = arguments.bind(name, [])?;
    if value.downcast_object_ref::<python::Generator>().is_some() {
        return Err(error("'generator' object is not reversible"));
    }
    let last = iterate(value)?.pop().unwrap_or_default();
    Ok(match Type::of(value) {
        Type::Str => markup::like(value, str(&last)),
        _ => last,
    })
}

pub(super) fn list(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [] = arguments.bind(name, [])?;
    iterate(value).map(Value::from)
}

pub(super) fn reverse(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [] = arguments.bind(name, [])?;
    if let Some(text) = value.as_str() {
        return Ok(markup::like(value, text.chars().rev().collect::<String>()));
    }
    let mut items = iterate(value)?;
    items.reverse();
    Ok(generator(items))
}

pub(super) fn items_of(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [] = arguments.bind(name, [])?;
    match Type::of(value) {
        Type::Undefined => Ok(generator(Vec::new())),
        Type::Dict => Ok(generator(entries(value))),
        _ => Err(error("Can only get item pairs from a mapping.")),
    }
}

fn entries(dict: &Value) -> Vec<Value> {
    pairs(dict)
        .into_iter()
        .map(|(key, value)| Value::from(Tuple::from([key, value])))
        .collect()
}

pub(super) fn attr(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [attribute] = arguments.bind(name, ["name"])?;
    let attribute = required(name, "name", attribute)?;
    // an attribute and never an item
    match Type::of(value) {
        Type::Dict if python::dict_get(value, &attribute).is_some() => Ok(Value::UNDEFINED),
        _ => access::attribute(value, &str(&attribute)),
    }
}

/// Follows `a.b.0`: names and indices with dots between them. No path is the value itself.
fn follow(value: &Value, path: Option<&Value>, missing: Option<&Value>) -> Result<Value, Error> {
    let Some(path) = path.filter(|path| !path.is_none()) else {
        return Ok(value.clone());
    };
    let path = str(path);
    let mut current = value.clone();
    for part in path.split('.') {
        let key = part
            .parse::<i64>()
            .map_or_else(|_| Value::from(part), Value::from);
        current = access::item(&current, &key)?;
        if let (true, Some(missing)) = (current.is_undefined(), missing) {
            current = missing.clone();
        }
    }
    Ok(current)
}

/// Text folds its case for a comparison that does not tell cases apart.
fn fold(value: Value, case_sensitive: bool) -> Value {
    match value.as_str() {
        Some(text) if !case_sensitive => Value::from(text.to_lowercase()),
        _ => value,
    }
}

/// Sorts by key, stably; a comparison that Python refuses is the error.
fn sort_by_key(keyed: &mut [(Value, Value)], reverse: bool) -> Result<(), Error> {
    let mut failure = None;
    keyed.sort_by(|(a, _), (b, _)| {
        let order = compare(a, b, "<").unwrap_or_else(|cause| {
            failure.get_or_insert(cause);
            None
        });
        let order = order.unwrap_or(Ordering::Equal);
        if reverse { order.reverse() } else { order }
    });
    failure.map_or(Ok(()), Err)
}

pub(super) fn sort(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [reverse, case_sensitive, attribute] =
        arguments.bind(name, ["reverse", "case_sensitive", "attribute"])?;
    let case_sensitive = flag(case_sensitive.as_ref());
    let mut keyed = Vec::new();
    for item in iterate(value)? {
        let key = match attribute.as_ref().filter(|paths| !paths.is_none()) {
            None => fold(item.clone(), case_sensitive),
            Some(paths) => {
                let parts: Result<Vec<Value>, Error> = str(paths)
                    .split(',')
                    .map(|path| {
                        Ok(fold(
                            follow(&item, Some(&Value::from(path)), None)?,
                            case_sensitive,
                        ))
                    })
                    .collect();
                Value::from(parts?)
            }
        };
        keyed.push((key, item));
    }
    sort_by_key(&mut keyed, flag(reverse.as_ref()))?;
    Ok(keyed
        .into_iter()
        .map(|(_, item)| item)
        .collect::<Vec<_>>()
        .into())
}

pub(super) fn dictsort(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [case_sensitive, by, reverse] =
        arguments.bind(name, ["case_sensitive", "by", "reverse"])?;
    let by_value = match by.as_ref().map_or(Some("key"), Value::as_str) {
        Some("key") => false,
        Some("value") => true,
        _ => return Err(error("You can only sort by either \"key\" or \"value\"")),
    };
    if Type::of(value) != Type::Dict {
        return Err(error(format!(
            "'{}' object has no attribute 'items'",
            Type::of(value).name()
        )));
    }
    let case_sensitive = flag(case_sensitive.as_ref());
    let mut keyed: Vec<(Value, Value)> = pairs(value)
        .into_iter()
        .map(|(key, value)| {
            let sort_key = fold(
                if by_value { value.clone() } else { key.clone() },
                case_sensitive,
            );
            (sort_key, Value::from(Tuple::from([key, value])))
        })
        .collect();
    sort_by_key(&mut keyed, flag(reverse.as_ref()))?;
    Ok(keyed
        .into_iter()
        .map(|(_, entry)| entry)
        .collect::<Vec<_>>()
        .into())
}

pub(super) fn unique(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [case_sensitive, attribute] = arguments.bind(name, ["case_sensitive", "attribute"])?;
    let mut seen: Vec<Value> = Vec::new();
    let mut kept = Vec::new();
    for item in iterate(value)? {
        let key = fold(
            follow(&item, attribute.as_ref(), None)?,
            flag(case_sensitive.as_ref()),
        );
        budget::spend_items(seen.len());
        budget::check()?;
        if !seen.iter().any(|other| equal(other, &key)) {
            seen.push(key);
            kept.push(item);
        }
    }
    Ok(generator(kept))
}

pub(super) fn extreme(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [case_sensitive, attribute] = arguments.bind(name, ["case_sensitive", "attribute"])?;
    let wanted = if name == "max" {
        Ordering::Greater
    } else {
        Ordering::Less
    };
    let mut best: Option<(Value, Value)> = None;
    for item in iterate(value)? {
        let key = fold(
            follow(&item, attribute.as_ref(), None)?,
            flag(case_sensitive.as_ref()),
        );
        let better = match &best {
            None => true,
            Some((other, _)) => {
                compare(&key, other, if name == "max" { ">" } else { "<" })? == Some(wanted)
            }
        };
        if better {
            best = Some((key, item));
        }
    }
    Ok(best.map(|(_, item)| item).unwrap_or_default())
}

pub(super) fn sum(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [attribute, start] = arguments.bind(name, ["attribute", "start"])?;
    let mut total = start.unwrap_or_else(|| Value::from(0));
    for item in iterate(value)? {
        total = ops::add(&total, &follow(&item, attribute.as_ref(), None)?)?;
    }
    Ok(total)
}

pub(super) fn join(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [separator, attribute] = arguments.bind(name, ["d", "attribute"])?;
    let separator = separator.unwrap_or_else(|| Value::from(""));
    let mut joined = String::new();
    for (index, item) in iterate(value)?.iter().enumerate() {
        if index > 0 {
            let separator = str(&separator);
            budget::take(separator.len())?;
            joined.push_str(&separator);
        }
        let item = follow(item, attribute.as_ref(), None)?;
        let item = str(&item);
        budget::take(item.len())?;
        joined.push_str(&item);
    }
    Ok(Value::from(joined))
}

/// `map(attribute=..)`, or `map("filter", arguments..)`. Of what is false, as `none`, nothing.
pub(super) fn map(
    state: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    mut arguments: Arguments,
) -> Result<Value, Error> {
    if !value.is_true() {
        return Ok(generator(Vec::new()));
    }
    let items = iterate(value)?;
    if arguments.positional.is_empty() {
        let [attribute, missing] = arguments.bind(name, ["attribute", "default"])?;
        let attribute = required(name, "attribute", attribute)?;
        let mapped: Result<Vec<_>, _> = items
            .iter()
            .map(|item| follow(item, Some(&attribute), missing.as_ref()))
            .collect();
        return Ok(generator(mapped?));
    }
    let filter = text_or_none(name, Some(&arguments.positional.remove(0)))?.unwrap_or_default();
    let rest = passed_on(arguments);
    let mapped: Result<Vec<_>, _> = items
        .into_iter()
        .map(|item| {
            let mut values = vec![item];
            values.extend(rest.iter().cloned());
            state.apply_filter(&filter, &values)
        })
        .collect();
    Ok(generator(mapped?))
}

fn passed_on(arguments: Arguments) -> Vec<Value> {
    let mut values = arguments.positional;
    if !arguments.keyword.is_empty() {
        values.push(Value::from(
            arguments
                .keyword
                .into_iter()
                .collect::<minijinja::value::Kwargs>(),
        ));
    }
    values
}

/// `select`, `reject` and their `attr` forms: a test by name, or truth. Of what is false, as `none`, nothing.
pub(super) fn select(
    state: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    mut arguments: Arguments,
) -> Result<Value, Error> {
    if !value.is_true() {
        return Ok(generator(Vec::new()));
    }
    let path = if name.ends_with("attr") {
        if arguments.positional.is_empty() {
            return Err(error(format!("`{name}` needs an attribute")));
        }
        Some(arguments.positional.remove(0))
    } else {
        None
    };
    let test = if arguments.positional.is_empty() {
        None
    } else {
        text_or_none(name, Some(&arguments.positional.remove(0)))?
    };
    let rest = passed_on(arguments);
    let wanted = name.starts_with("select");
    let mut kept = Vec::new();
    for item in iterate(value)? {
        let subject = follow(&item, path.as_ref(), None)?;
        let holds = match &test {
            None => subject.is_true(),
            Some(test) => {
                let mut values = vec![subject];
                values.extend(rest.iter().cloned());
                state.perform_test(test, &values)?
            }
        };
        if holds == wanted {
            kept.push(item);
        }
    }
    Ok(generator(kept))
}

pub(super) fn groupby(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [attribute, missing, case_sensitive] =
        arguments.bind(name, ["attribute", "default", "case_sensitive"])?;
    let attribute = required(name, "attribute", attribute)?;
    let case_sensitive = flag(case_sensitive.as_ref());
    let mut keyed = Vec::new();
    for item in iterate(value)? {
        keyed.push((
            fold(
                follow(&item, Some(&attribute), missing.as_ref())?,
                case_sensitive,
            ),
            item,
        ));
    }
    sort_by_key(&mut keyed, false)?;
    let mut groups: Vec<(Value, Value, Vec<Value>)> = Vec::new();
    for (key, item) in keyed {
        match groups.last_mut() {
            Some((last, _, members)) if equal(last, &key) => members.push(item),
            _ => groups.push((
                key,
                follow(&item, Some(&attribute), missing.as_ref())?,
                vec![item],
            )),
        }
    }
    let groups = groups
        .into_iter()
        .map(|(_, grouper, members)| Value::from(Tuple::from([grouper, Value::from(members)])));
    Ok(Value::from(groups.collect::<Vec<_>>()))
}

pub(super) fn batch(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [size, fill] = arguments.bind(name, ["linecount", "fill_with"])?;
    let size = int_or_none(name, size.as_ref())?
        .and_then(|size| usize::try_from(size).ok())
        .filter(|size| (1..=100_000).contains(size));
    let size = size.ok_or_else(|| error("`batch` needs a size of at least one"))?;
    let mut batches: Vec<Vec<Value>> = iterate(value)?
        .chunks(size)
        .map(<[Value]>::to_vec)
        .collect();
    if let (Some(last), Some(fill)) = (batches.last_mut(), fill.filter(|fill| !fill.is_none())) {
        last.resize(size, fill);
    }
    Ok(generator(batches.into_iter().map(Value::from).collect()))
}

pub(super) fn slices(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [count, fill] = arguments.bind(name, ["slices", "fill_with"])?;
    let count = int_or_none(name, count.as_ref())?
        .and_then(|count| usize::try_from(count).ok())
        .filter(|count| (1..=100_000).contains(count));
    let count = count.ok_or_else(|| error("`slice` needs a count of at least one"))?;
    let items = iterate(value)?;
    let (size, longer) = (items.len() / count, items.len() % count);
    let mut rest = items.as_slice();
    let mut columns = Vec::new();
    for index in 0..count {
        let (column, remainder) = rest.split_at(size + usize::from(index < longer));
        rest = remainder;
        let mut column = column.to_vec();
        if let Some(fill) = fill
            .as_ref()
            .filter(|fill| !fill.is_none() && index >= longer && longer > 0)
        {
            column.push(fill.clone());
        }
        columns.push(Value::from(column));
    }
    Ok(generator(columns))
}
