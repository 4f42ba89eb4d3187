//! Filters that minijinja lacks, that differ from Python's jinja2, or whose work has to be counted.

use std::sync::LazyLock;

use minijinja::formatting::FormatStyle;
use minijinja::value::{Rest, Value, ValueOrKwargs, from_args};
use minijinja::{Environment, Error, State, filters};

use super::arguments::{Arguments, int_or_none, text, text_or_none};
use super::budget::{self, filtered};
use super::json::{self, JsonLayout};
use super::operators::{escaped, formatted};
use super::str_methods;
use super::text::weighed;
use super::value::{Type, as_int, entries, error, generator, is_generator, items, iterate, length};

/// Names of the filters. Others are refused, even if minijinja has them.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "abs", "batch", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first", "float", "format",
    "from_json", "groupby", "indent", "int", "items", "join", "last", "length", "list", "lower", "map", "max", "min",
    "reject", "rejectattr", "replace", "reverse", "round", "safe", "select", "selectattr", "slice", "sort", "string",
    "sum", "title", "tojson", "trim", "unique", "upper", "urlencode",
];

/// Maximum number of parts into which a list is divided, and of items of one part.
const MAX_PARTS: i128 = 100_000;

/// An environment with minijinja's own filters.
static NATIVE: LazyLock<Environment<'static>> = LazyLock::new(Environment::new);

pub(super) fn install(environment: &mut Environment<'static>) {
    for name in ["attr", "bool", "chain", "lines", "pprint", "split", "zip"] {
        environment.remove_filter(name);
    }
    for &name in NAMES {
        environment.add_filter(
            name,
            move |state: &mut State<'_, '_>, value: Value, rest: Rest<ValueOrKwargs>| {
                budget::search(&value);
                let arguments = Arguments::new(rest.into_values());
                budget::spend_paths(arguments.text_len(), &value);
                filtered(|| {
                    let made = filter(state, name, &value, arguments)?;
                    budget::spend(made.as_str().map_or(0, str::len));
                    Ok(made)
                })
            },
        );
    }
}

/// Applies minijinja's filter of that name.
fn native(name: &str, value: Value, arguments: Vec<Value>) -> Result<Value, Error> {
    let values = [vec![value], arguments].concat();
    NATIVE.empty_state().apply_filter(name, &values)
}

fn filter(
    state: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    match name {
        "d" | "default" => {
            let [default, boolean] = arguments.bind(name, 0, ["default_value", "boolean"])?;
            let is_replaced = value.is_undefined()
                || (boolean.is_some_and(|boolean| boolean.is_true()) && !value.is_true());
            let default = default.unwrap_or_else(|| Value::from(""));
            Ok(if is_replaced { default } else { value.clone() })
        }
        "format" => formatted(FormatStyle::Printf, &weighed(value)?, arguments),
        "indent" => indent(name, value, arguments),
        "int" | "float" => {
            let zero = if name == "int" {
                Value::from(0)
            } else {
                Value::from(0.0)
            };
            let mut given = arguments.bind(name, 0, ["default", "base"])?;
            given[0].get_or_insert(zero);
            let trimmed = value.as_str().map(|text| Value::from(text.trim()));
            let value = trimmed.unwrap_or_else(|| value.clone());
            native(name, value, given.into_iter().flatten().collect())
        }
        "join" => join(name, value, arguments),
        "map" | "select" | "reject" | "selectattr" | "rejectattr" => {
            picked(state, name, value, &arguments.into_values()).map(generator)
        }
        "replace" => {
            let [old, new, count] = arguments.bind(name, 2, ["old", "new", "count"])?;
            let plain = |value: Option<Value>| {
                weighed(&value.unwrap_or_default()).map(|text| Value::from(text.into_owned()))
            };
            let given = vec![plain(old)?, plain(new)?, count.unwrap_or_else(|| ().into())];
            let subject = Value::from(weighed(value)?);
            str_methods::call(state, &subject, name, Arguments::new(given))
        }
        "tojson" => tojson(name, value, arguments),
        "batch" | "slice" => {
            let size = ["linecount", "slices"][usize::from(name == "slice")];
            let given = arguments.bind(name, 1, [size, "fill_with"])?;
            let size = given[0].as_ref().and_then(as_int);
            if size.is_none_or(|size| !(1..=MAX_PARTS).contains(&size)) {
                return Err(error(format!(
                    "`{name}` needs a number from 1 to {MAX_PARTS}"
                )));
            }
            let list = Value::from(iterate(value)?);
            let parts = native(name, list, given.into_iter().flatten().collect())?;
            Ok(generator(items(&parts)))
        }
        "abs" | "round" => native(name, value.clone(), arguments.into_values()),
        "sum" => {
            let path = arguments.bind(name, 0, ["attribute"])?;
            let list = Value::from(iterate(value)?);
            native(name, list, path.into_iter().flatten().collect())
        }
        "groupby" | "max" | "min" | "sort" | "unique" => {
            budget::weigh(value)?;
            let list = iterate(value)?;
            // A path for each item of the list, or several, with commas.
            budget::spend_items(list.len().saturating_mul(arguments.text_len()));
            budget::check()?;
            let made = native(name, Value::from(list), arguments.into_values())?;
            Ok(match name {
                "unique" => generator(items(&made)),
                _ => made,
            })
        }
        "dictsort" | "urlencode" => {
            budget::weigh(value)?;
            native(name, value.clone(), arguments.into_values())
        }
        "capitalize" | "lower" | "title" | "trim" | "upper" => {
            native(name, Value::from(weighed(value)?), arguments.into_values())
        }
        _ => {
            let [] = arguments.bind(name, 0, [])?;
            converted(name, value)
        }
    }
}

/// Applies a filter without arguments.
fn converted(name: &str, value: &Value) -> Result<Value, Error> {
    match name {
        "count" | "length" => length(value).map(Value::from),
        "e" | "escape" => escaped(value),
        "first" => Ok(iterate(value)?.into_iter().next().unwrap_or_default()),
        "from_json" => json::load(&text(name, Some(value.clone()))?),
        "items" if value.is_undefined() => Ok(generator(Vec::new())),
        "items" if Type::from_value(value) == Type::Dict => Ok(generator(entries(value))),
        "last" if !is_generator(value) => Ok(iterate(value)?.pop().unwrap_or_default()),
        "list" => iterate(value).map(Value::from),
        "reverse" if value.as_str().is_some() => native(name, value.clone(), Vec::new()),
        "reverse" => Ok(generator(iterate(value)?.into_iter().rev().collect())),
        "safe" => Ok(Value::from_safe_string(weighed(value)?.into_owned())),
        "string" => weighed(value).map(Value::from),
        _ => Err(error(format!(
            "`{name}` cannot be used on '{}'",
            Type::from_value(value)
        ))),
    }
}

/// Applies a filter that applies others, or tests. A false value, such as `none`, gives no items.
fn picked(
    state: &mut State<'_, '_>,
    name: &str,
    value: &Value,
    arguments: &[Value],
) -> Result<Vec<Value>, Error> {
    if !value.is_true() {
        return Ok(Vec::new());
    }
    let list = Value::from(iterate(value)?);
    match name {
        "map" => {
            let (rest,) = from_args(arguments)?;
            filters::map(state, list, rest)
        }
        "select" | "reject" => {
            let (test, rest) = from_args(arguments)?;
            let apply = [filters::select, filters::reject][usize::from(name == "reject")];
            apply(state, list, test, rest)
        }
        _ => {
            let (path, test, rest) = from_args(arguments)?;
            let apply =
                [filters::selectattr, filters::rejectattr][usize::from(name == "rejectattr")];
            apply(state, list, path, test, rest)
        }
    }
}

fn join(name: &str, value: &Value, arguments: Arguments) -> Result<Value, Error> {
    let [separator] = arguments.bind(name, 0, ["d"])?;
    let separator = separator.unwrap_or_default();
    let separator = weighed(&separator)?;
    let mut joined = String::new();
    for (index, item) in iterate(value)?.iter().enumerate() {
        let item = weighed(item)?;
        budget::take(separator.len() + item.len())?;
        joined.push_str(if index > 0 { &separator } else { "" });
        joined.push_str(&item);
    }
    Ok(Value::from(joined))
}

/// Returns the indentation for a number of spaces, or a text; `None` for other values.
fn indention(name: &str, width: Option<Value>) -> Result<Option<String>, Error> {
    if let Some(text) = width.as_ref().and_then(Value::as_str) {
        return Ok(Some(text.to_owned()));
    }
    let spaces = |width: i64| " ".repeat(usize::try_from(width).unwrap_or(0).min(1000));
    int_or_none(name, width).map(|width| width.map(spaces))
}

fn indent(name: &str, value: &Value, arguments: Arguments) -> Result<Value, Error> {
    let [width, first, blank] = arguments.bind(name, 0, ["width", "first", "blank"])?;
    let [first, blank] = [first, blank].map(|given| given.is_some_and(|given| given.is_true()));
    let indention = indention(name, width)?.unwrap_or_else(|| " ".repeat(4));
    let text = weighed(value)?.into_owned() + "\n";
    let count = text.lines().count();
    budget::take(text.len() + count.saturating_mul(16 + indention.len()))?;
    let mut out = String::new();
    for (index, line) in text.lines().enumerate() {
        out.push_str(if index > 0 { "\n" } else { "" });
        let is_indented = if index == 0 {
            first
        } else {
            blank || !line.is_empty()
        };
        out.push_str(if is_indented { &indention } else { "" });
        out.push_str(line);
    }
    Ok(Value::from(out))
}

/// Applies transformers' `tojson`: `json.dumps` that keeps characters unchanged and does not escape
/// HTML.
fn tojson(name: &str, value: &Value, arguments: Arguments) -> Result<Value, Error> {
    let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
    let [ascii, indent, separators, sort_keys] = arguments.bind(name, 0, names)?;
    let indent = indention(name, indent)?;
    let [item, key] = match separators.filter(|pair| !pair.is_none()) {
        None => [None, None],
        Some(pair) => <[Value; 2]>::try_from(iterate(&pair)?)
            .map_err(|_| error("`separators` must be two strings"))?
            .map(Some),
    };
    let usual = if indent.is_some() { "," } else { ", " };
    let [ascii, sort_keys] =
        [ascii, sort_keys].map(|given| given.is_some_and(|given| given.is_true()));
    let layout = JsonLayout {
        item_separator: text_or_none(name, item)?.unwrap_or_else(|| usual.to_owned()),
        key_separator: text_or_none(name, key)?.unwrap_or_else(|| ": ".to_owned()),
        indent,
        ascii,
        sort_keys,
    };
    json::dump(value, &layout).map(Value::from)
}
