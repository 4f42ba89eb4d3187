//! The filters that minijinja has not, or not as Python's jinja2 has them.

use std::sync::LazyLock;

use minijinja::formatting::FormatStyle;
use minijinja::value::{Rest, Tuple, Value, ValueOrKwargs};
use minijinja::{Environment, Error, State};

use super::access;
use super::arguments::{Arguments, flag, int_or_none, required, text, text_or_none};
use super::budget;
use super::functions::bounded;
use super::json::{self, Layout};
use super::markup::{self, is_markup, like};
use super::operators::{add, formatted};
use super::str_methods::{self, split_lines};
use super::text::{repr, str, weighed};
use super::value::{
    Type, as_float, as_int, compare, dict_get, error, from_int, generator, is_generator, items,
    iterate, length,
};

/// Filters of jinja2; what is not here, minijinja may have but Python has not.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "abs", "attr", "batch", "capitalize", "center", "count", "d", "default", "dictsort", "e", "escape", "first",
    "float", "forceescape", "format", "from_json", "groupby", "indent", "int", "items", "join", "last", "length",
    "list", "lower", "map", "max", "min", "pprint", "reject", "rejectattr", "replace", "reverse", "round", "safe",
    "select", "selectattr", "slice", "sort", "string", "sum", "title", "tojson", "trim", "truncate", "unique", "upper",
    "urlencode", "wordcount",
];

/// minijinja's own filters.
static NATIVE: LazyLock<Environment<'static>> = LazyLock::new(Environment::new);

pub(super) fn install(environment: &mut Environment<'static>) {
    for name in ["bool", "chain", "lines", "split", "zip"] {
        environment.remove_filter(name);
    }
    for &name in NAMES {
        environment.add_filter(
            name,
            move |state: &mut State<'_, '_>, value: Value, rest: Rest<ValueOrKwargs>| {
                budget::search(&value);
                bounded(|| {
                    let made = filter(state, name, &value, Arguments::new(rest.into_values()))?;
                    budget::spend(made.as_str().map_or(0, str::len));
                    Ok(made)
                })
            },
        );
    }
}

fn native(name: &str, value: Value, arguments: Arguments) -> Result<Value, Error> {
    let values = [vec![value], arguments.into_values()].concat();
    NATIVE.empty_state().apply_filter(name, &values)
}

fn filter(
    state: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    mut arguments: Arguments,
) -> Result<Value, Error> {
    match name {
        "map" | "select" | "reject" | "selectattr" | "rejectattr" if !value.is_true() => {
            Ok(generator(Vec::new()))
        }
        "map" => map(state, value, arguments).map(generator),
        "select" | "reject" | "selectattr" | "rejectattr" => {
            select(state, name, value, arguments).map(generator)
        }
        "attr" => {
            let [attribute] = arguments.bind(name, ["name"])?;
            let attribute = str(&required(name, "name", attribute)?);
            // an attribute and never an item
            match Type::of(value) {
                Type::Dict if dict_get(value, &Value::from(&*attribute)).is_some() => {
                    Ok(Value::UNDEFINED)
                }
                _ => access::attribute(value, &attribute),
            }
        }
        "center" => {
            if arguments.positional.is_empty() && arguments.keyword.is_empty() {
                arguments.positional.push(Value::from(80));
            }
            let made = str_methods::call(state, &Value::from(weighed(value)?), name, arguments)?;
            Ok(like(value, str(&made)))
        }
        "count" | "length" => {
            let [] = arguments.bind(name, [])?;
            length(value).map(Value::from)
        }
        "d" | "default" => {
            let [default, boolean] = arguments.bind(name, ["default_value", "boolean"])?;
            let replaced = value.is_undefined() || (flag(boolean.as_ref()) && !value.is_true());
            Ok(if replaced {
                default.unwrap_or_else(|| Value::from(""))
            } else {
                value.clone()
            })
        }
        "e" | "escape" | "forceescape" | "safe" | "string" | "pprint" => {
            let [] = arguments.bind(name, [])?;
            let text = weighed(value)?;
            Ok(match name {
                "safe" => markup::markup(text),
                "string" => like(value, text),
                "pprint" => Value::from(repr(value)),
                "forceescape" => markup::markup(markup::escaped(&text)),
                _ => markup::markup(markup::escape(value)),
            })
        }
        "first" | "last" | "list" => {
            let [] = arguments.bind(name, [])?;
            if name == "last" && is_generator(value) {
                return Err(error("'generator' object is not reversible"));
            }
            let mut items = iterate(value)?;
            Ok(match name {
                "list" => Value::from(items),
                "first" => items.into_iter().next().unwrap_or_default(),
                _ => items
                    .pop()
                    .map(|last| {
                        if is_markup(value) {
                            markup::markup(str(&last))
                        } else {
                            last
                        }
                    })
                    .unwrap_or_default(),
            })
        }
        "float" => {
            let [default] = arguments.bind(name, ["default"])?;
            let parsed = value
                .as_str()
                .map_or_else(|| as_float(value), |text| text.trim().parse().ok());
            Ok(parsed.map_or_else(|| default.unwrap_or_else(|| Value::from(0.0)), Value::from))
        }
        "int" => {
            let [default, base] = arguments.bind(name, ["default", "base"])?;
            let base = int_or_none(name, base.as_ref())?.unwrap_or(10);
            let truncated = |float: f64| float.is_finite().then_some(float.trunc() as i128);
            let parsed = match value.as_str() {
                Some(text) => {
                    parse_int(text, base).or_else(|| text.trim().parse().ok().and_then(truncated))
                }
                None => as_int(value).or_else(|| as_float(value).and_then(truncated)),
            };
            Ok(parsed.map_or_else(|| default.unwrap_or_else(|| Value::from(0)), from_int))
        }
        "format" => {
            if !arguments.keyword.is_empty() {
                return Err(error("`format` takes positional arguments here"));
            }
            formatted(FormatStyle::Printf, value, &weighed(value)?, arguments)
        }
        "from_json" => {
            let [] = arguments.bind(name, [])?;
            json::load(
                value
                    .as_str()
                    .ok_or_else(|| error("the JSON object must be str"))?,
            )
        }
        "groupby" => groupby(name, value, arguments),
        "indent" => indent(name, value, arguments),
        "items" => {
            let [] = arguments.bind(name, [])?;
            match Type::of(value) {
                Type::Undefined => Ok(generator(Vec::new())),
                Type::Dict => native(name, value.clone(), arguments_of([]))
                    .map(|entries| generator(items(&entries))),
                _ => Err(error("Can only get item pairs from a mapping.")),
            }
        }
        "join" => join(name, value, arguments),
        "replace" => {
            let [old, new, count] = arguments.bind(name, ["old", "new", "count"])?;
            let (old, new) = (required(name, "old", old)?, required(name, "new", new)?);
            let count = count.unwrap_or_else(|| Value::from(()));
            let arguments = arguments_of([
                Value::from(weighed(&old)?),
                Value::from(weighed(&new)?),
                count,
            ]);
            str_methods::call(state, &Value::from(weighed(value)?), name, arguments)
        }
        "sum" => {
            let [attribute, start] = arguments.bind(name, ["attribute", "start"])?;
            let start = start.unwrap_or_else(|| Value::from(0));
            let mut items = iterate(value)?.into_iter();
            items.try_fold(start, |sum, item| {
                add(&sum, &follow(&item, attribute.as_ref(), None)?)
            })
        }
        "tojson" => tojson(name, value, arguments),
        "truncate" => truncate(name, value, arguments),
        "unique" => unique(name, value, arguments),
        "wordcount" => {
            let [] = arguments.bind(name, [])?;
            let text = weighed(value)?;
            let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
            Ok(Value::from(words.filter(|word| !word.is_empty()).count()))
        }
        "batch" | "slice" | "reverse" if value.as_str().is_none() || name != "reverse" => {
            native(name, Value::from(iterate(value)?), arguments)
                .map(|made| generator(items(&made)))
        }
        "sort" | "min" | "max" | "dictsort" => {
            let attribute = arguments
                .keyword
                .iter()
                .find(|(name, _)| name == "attribute");
            let attribute = attribute.map(|(_, path)| path);
            let items = iterate(value)?;
            budget::weigh(value)?;
            if attribute.is_none_or(|path| !str(path).contains(',')) && name != "dictsort" {
                let keys = items.iter().map(|item| follow(item, attribute, None));
                let keys = keys.collect::<Result<Vec<_>, _>>()?;
                keys.windows(2)
                    .try_for_each(|pair| compare(&pair[1], &pair[0], "<").map(drop))?;
            }
            native(
                name,
                if name == "dictsort" {
                    value.clone()
                } else {
                    Value::from(items)
                },
                arguments,
            )
        }
        // texts and numbers
        _ => native(
            name,
            if value.as_object().is_some() {
                Value::from(weighed(value)?)
            } else {
                value.clone()
            },
            arguments,
        ),
    }
}

fn arguments_of<const N: usize>(positional: [Value; N]) -> Arguments {
    Arguments {
        positional: positional.into(),
        keyword: Vec::new(),
    }
}

/// `int(text, base)`: white space around, a sign, a prefix and single underscores between digits are fine.
fn parse_int(text: &str, base: i64) -> Option<i128> {
    let text = text.trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let prefix = [(2, "0b"), (8, "0o"), (16, "0x")]
        .into_iter()
        .find(|(of, _)| *of == base);
    let digits = digits.to_lowercase();
    let digits = prefix
        .and_then(|(_, prefix)| digits.strip_prefix(prefix))
        .unwrap_or(&digits);
    let misplaced =
        digits.starts_with(['_', '+', '-']) || digits.ends_with('_') || digits.contains("__");
    if misplaced || !(2..=36).contains(&base) {
        return None;
    }
    let parsed = i128::from_str_radix(&digits.replace('_', ""), base as u32);
    parsed.ok().map(|int| sign * int)
}

/// Follows `a.b.0`: names and indices with dots between them. No path is the value itself.
fn follow(value: &Value, path: Option<&Value>, missing: Option<&Value>) -> Result<Value, Error> {
    let Some(path) = path.filter(|path| !path.is_none()) else {
        return Ok(value.clone());
    };
    let mut current = value.clone();
    for part in str(path).split('.') {
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
fn fold(value: Value, case_sensitive: Option<&Value>) -> Value {
    match value.as_str() {
        Some(text) if !flag(case_sensitive) => Value::from(text.to_lowercase()),
        _ => value,
    }
}

/// `map(attribute=..)`, or `map("filter", arguments..)`.
fn map(
    state: &mut State<'_, '_>,
    value: &Value,
    mut arguments: Arguments,
) -> Result<Vec<Value>, Error> {
    let items = iterate(value)?;
    if arguments.positional.is_empty() {
        let [attribute, missing] = arguments.bind("map", ["attribute", "default"])?;
        let attribute = required("map", "attribute", attribute)?;
        return items
            .iter()
            .map(|item| follow(item, Some(&attribute), missing.as_ref()))
            .collect();
    }
    let filter = text("map", &arguments.positional.remove(0))?;
    let mut values = [vec![Value::UNDEFINED], arguments.into_values()].concat();
    let apply = |item| {
        values[0] = item;
        state.apply_filter(&filter, &values)
    };
    items.into_iter().map(apply).collect()
}

/// `select`, `reject` and their `attr` forms: a test by name, or truth.
fn select(
    state: &mut State<'_, '_>,
    name: &str,
    value: &Value,
    mut arguments: Arguments,
) -> Result<Vec<Value>, Error> {
    let next = |arguments: &mut Arguments| {
        (!arguments.positional.is_empty()).then(|| arguments.positional.remove(0))
    };
    let path = if name.ends_with("attr") {
        Some(required(name, "attr", next(&mut arguments))?)
    } else {
        None
    };
    let test = text_or_none(name, next(&mut arguments).as_ref())?;
    let mut values = [vec![Value::UNDEFINED], arguments.into_values()].concat();
    let mut kept = Vec::new();
    for item in iterate(value)? {
        values[0] = follow(&item, path.as_ref(), None)?;
        let holds = match &test {
            None => values[0].is_true(),
            Some(test) => state.perform_test(test, &values)?,
        };
        if holds == name.starts_with("select") {
            kept.push(item);
        }
    }
    Ok(kept)
}

fn groupby(name: &str, value: &Value, arguments: Arguments) -> Result<Value, Error> {
    let [attribute, missing, case_sensitive] =
        arguments.bind(name, ["attribute", "default", "case_sensitive"])?;
    let attribute = required(name, "attribute", attribute)?;
    let mut groups: Vec<(Value, Value, Vec<Value>)> = Vec::new();
    for item in iterate(value)? {
        let grouper = follow(&item, Some(&attribute), missing.as_ref())?;
        let key = fold(grouper.clone(), case_sensitive.as_ref());
        budget::spend_items(groups.len());
        budget::check()?;
        let mut at = groups.len();
        for (place, (other, ..)) in groups.iter().enumerate().rev() {
            match compare(&key, other, "<")? {
                Some(std::cmp::Ordering::Less) => at = place,
                _ => break,
            }
        }
        match at.checked_sub(1).and_then(|before| groups.get_mut(before)) {
            Some((other, _, members)) if *other == key => members.push(item),
            _ => groups.insert(at, (key, grouper, vec![item])),
        }
    }
    let pair = |(_, grouper, members)| Value::from(Tuple::from([grouper, Value::from(members)]));
    Ok(Value::from(
        groups.into_iter().map(pair).collect::<Vec<_>>(),
    ))
}

fn unique(name: &str, value: &Value, arguments: Arguments) -> Result<Value, Error> {
    let [case_sensitive, attribute] = arguments.bind(name, ["case_sensitive", "attribute"])?;
    let mut seen: Vec<Value> = Vec::new();
    let mut kept = Vec::new();
    budget::weigh(value)?;
    for item in iterate(value)? {
        let key = fold(
            follow(&item, attribute.as_ref(), None)?,
            case_sensitive.as_ref(),
        );
        budget::spend_items(seen.len());
        budget::check()?;
        if !seen.contains(&key) {
            seen.push(key);
            kept.push(item);
        }
    }
    Ok(generator(kept))
}

fn join(name: &str, value: &Value, arguments: Arguments) -> Result<Value, Error> {
    let [separator, attribute] = arguments.bind(name, ["d", "attribute"])?;
    let separator = separator.unwrap_or_else(|| Value::from(""));
    let separator = weighed(&separator)?;
    let mut joined = String::new();
    for (index, item) in iterate(value)?.iter().enumerate() {
        let item = follow(item, attribute.as_ref(), None)?;
        let item = weighed(&item)?;
        budget::take(separator.len() + item.len())?;
        joined.push_str(if index > 0 { &separator } else { "" });
        joined.push_str(&item);
    }
    Ok(Value::from(joined))
}

/// A number of spaces, or a text; `None` where there is neither.
fn indention(name: &str, width: Option<&Value>) -> Result<Option<String>, Error> {
    Ok(match width.and_then(Value::as_str) {
        Some(text) => Some(text.to_owned()),
        None => int_or_none(name, width)?
            .map(|width| " ".repeat(usize::try_from(width).unwrap_or(0).min(1000))),
    })
}

fn indent(name: &str, value: &Value, arguments: Arguments) -> Result<Value, Error> {
    let [width, first, blank] = arguments.bind(name, ["width", "first", "blank"])?;
    let indention = indention(name, width.as_ref())?.unwrap_or_else(|| " ".repeat(4));
    let text = weighed(value)?.into_owned() + "\n";
    let lines = split_lines(&text, false);
    budget::take(text.len() + lines.len().saturating_mul(16 + indention.len()))?;
    let mut out = String::new();
    for (index, line) in lines.into_iter().enumerate() {
        out.push_str(if index > 0 { "\n" } else { "" });
        let is_indented = if index == 0 {
            flag(first.as_ref())
        } else {
            flag(blank.as_ref()) || !line.is_empty()
        };
        out.push_str(if is_indented { &indention } else { "" });
        out.push_str(line);
    }
    Ok(like(value, out))
}

fn truncate(name: &str, value: &Value, arguments: Arguments) -> Result<Value, Error> {
    let [length, kill_words, end, leeway] =
        arguments.bind(name, ["length", "killwords", "end", "leeway"])?;
    let number = |value: Option<&Value>, default: usize| -> Result<usize, Error> {
        Ok(int_or_none(name, value)?.map_or(default, |int| usize::try_from(int).unwrap_or(0)))
    };
    let (length, leeway) = (number(length.as_ref(), 255)?, number(leeway.as_ref(), 5)?);
    let end = end
        .filter(|end| !end.is_none())
        .unwrap_or_else(|| Value::from("..."));
    let end_length = text(name, &end)?.chars().count();
    let text = weighed(value)?;
    if text.chars().count() <= length + leeway {
        return Ok(like(value, text));
    }
    let kept: String = text
        .chars()
        .take(length.saturating_sub(end_length))
        .collect();
    let kept = match kept.rfind(' ') {
        Some(space) if !flag(kill_words.as_ref()) => &kept[..space],
        _ => &kept,
    };
    add(&like(value, kept), &end)
}

/// transformers' `tojson`: `json.dumps` that keeps characters as they are and escapes no HTML.
fn tojson(name: &str, value: &Value, arguments: Arguments) -> Result<Value, Error> {
    let [ascii, indent, separators, sort_keys] =
        arguments.bind(name, ["ensure_ascii", "indent", "separators", "sort_keys"])?;
    let indent = indention(name, indent.as_ref())?;
    let default = if indent.is_some() { "," } else { ", " };
    let separators = match separators.filter(|separators| !separators.is_none()) {
        None => vec![Value::from(default), Value::from(": ")],
        Some(separators) => iterate(&separators)?,
    };
    let [item_separator, key_separator] = separators.as_slice() else {
        return Err(error("`separators` must be two strings"));
    };
    let layout = Layout {
        indent,
        item_separator: text(name, item_separator)?,
        key_separator: text(name, key_separator)?,
        ascii: flag(ascii.as_ref()),
        sort_keys: flag(sort_keys.as_ref()),
    };
    json::dump(value, &layout).map(Value::from)
}
