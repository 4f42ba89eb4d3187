//! Filters that minijinja lacks, or that differ from Python's jinja2.

use std::sync::LazyLock;

use minijinja::formatting::FormatStyle;
use minijinja::value::{Rest, Value, ValueOrKwargs};
use minijinja::{Environment, Error, State};

use super::access;
use super::arguments::{Arguments, int_or_none, is_given, or, size_or, text};
use super::budget::{self, filtered};
use super::json::{self, Layout};
use super::markup::{self, like};
use super::operators::{add, formatted};
use super::sequences;
use super::str_methods::{self, split_lines};
use super::text::{repr, str, weighed};
use super::value::{
    Type, as_float, as_int, dict_get, entries, error, from_int, generator, is_generator, items,
    iterate, length,
};

/// Names of jinja2's filters. Others are refused, even if minijinja has them.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "abs", "attr", "batch", "capitalize", "center", "count", "d", "default", "dictsort", "e", "escape", "first",
    "float", "forceescape", "format", "from_json", "groupby", "indent", "int", "items", "join", "last", "length",
    "list", "lower", "map", "max", "min", "pprint", "reject", "rejectattr", "replace", "reverse", "round", "safe",
    "select", "selectattr", "slice", "sort", "string", "sum", "title", "tojson", "trim", "truncate", "unique", "upper",
    "urlencode", "wordcount",
];

/// Maximum number of parts into which a list is divided, and of items of one part.
const MAX_PARTS: i128 = 100_000;

/// An environment with minijinja's own filters.
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
                filtered(|| {
                    let made = filter(state, name, &value, Arguments::new(rest.into_values()))?;
                    budget::spend(made.as_str().map_or(0, str::len));
                    Ok(made)
                })
            },
        );
    }
}

/// Applies minijinja's filter of that name, with the arguments before the first missing one.
fn native<const N: usize>(name: &str, value: Value, given: [Value; N]) -> Result<Value, Error> {
    let given = given.into_iter().take_while(is_given);
    let values: Vec<Value> = std::iter::once(value).chain(given).collect();
    NATIVE.empty_state().apply_filter(name, &values)
}

fn filter(
    state: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    mut arguments: Arguments,
) -> Result<Value, Error> {
    let plain = arguments.positional.is_empty() && arguments.keyword.is_empty();
    match name {
        "attr" => {
            let [attribute] = arguments.bind(name, 1, ["name"])?;
            // It is an attribute, and never an item.
            if Type::from_value(value) == Type::Dict && dict_get(value, &attribute).is_some() {
                return Ok(Value::UNDEFINED);
            }
            access::attribute(value, &text(name, &attribute)?)
        }
        "center" => {
            if plain {
                arguments.positional.push(Value::from(80));
            }
            let made = str_methods::call(state, &plain_text(value)?, name, arguments)?;
            Ok(like(value, str(&made)))
        }
        "d" | "default" => {
            let [default, boolean] = arguments.bind(name, 0, ["default_value", "boolean"])?;
            let replaced = value.is_undefined() || (boolean.is_true() && !value.is_true());
            let default = or(default, "");
            Ok(if replaced { default } else { value.clone() })
        }
        "float" => {
            let [default] = arguments.bind(name, 0, ["default"])?;
            let text = value.as_str();
            let parsed = text.map_or_else(|| as_float(value), |text| text.trim().parse().ok());
            Ok(parsed.map_or_else(|| or(default, 0.0), Value::from))
        }
        "format" if arguments.keyword.is_empty() => {
            formatted(FormatStyle::Printf, value, &weighed(value)?, arguments)
        }
        "groupby" => sequences::groupby(name, value, arguments),
        "indent" => indent(name, value, arguments),
        "int" => {
            let [default, base] = arguments.bind(name, 0, ["default", "base"])?;
            let base = int_or_none(name, &base)?.unwrap_or(10);
            let whole = |float: f64| float.is_finite().then_some(float.trunc() as i128);
            let float = |text: &str| text.trim().parse().ok().and_then(whole);
            let parsed = match value.as_str() {
                Some(text) => parse_int(text, base).or_else(|| float(text)),
                None => as_int(value).or_else(|| as_float(value).and_then(whole)),
            };
            Ok(parsed.map_or_else(|| or(default, 0), from_int))
        }
        "join" => sequences::join(name, value, arguments),
        "map" => sequences::map(state, value, arguments).map(generator),
        "select" | "reject" | "selectattr" | "rejectattr" => {
            sequences::select(state, name, value, arguments).map(generator)
        }
        "replace" => {
            let [old, new, count] = arguments.bind(name, 2, ["old", "new", "count"])?;
            let positional = vec![plain_text(&old)?, plain_text(&new)?, count];
            str_methods::call(state, &plain_text(value)?, name, Arguments::new(positional))
        }
        "sort" => sequences::sort(name, value, arguments),
        "sum" => sequences::sum(name, value, arguments),
        "tojson" => tojson(name, value, arguments),
        "truncate" => truncate(name, value, arguments),
        "unique" => sequences::unique(name, value, arguments),
        "dictsort" => sequences::dictsort(name, value, arguments),
        "min" | "max" => sequences::extreme(name, value, arguments),
        "batch" | "slice" => {
            let size = ["linecount", "slices"][usize::from(name == "slice")];
            let [size, fill] = arguments.bind(name, 1, [size, "fill_with"])?;
            if as_int(&size).is_none_or(|size| !(1..=MAX_PARTS).contains(&size)) {
                return Err(error(format!(
                    "`{name}` needs a number from 1 to {MAX_PARTS}"
                )));
            }
            let parts = native(name, Value::from(iterate(value)?), [size, fill])?;
            Ok(generator(items(&parts)))
        }
        "abs" => {
            let number = as_int(value).map_or_else(|| value.clone(), from_int);
            native(name, number, arguments.bind(name, 0, [])?)
        }
        "round" => {
            let [precision, method] = arguments.bind(name, 0, ["precision", "method"])?;
            let number = match as_int(value) {
                Some(int) if !is_given(&method) => from_int(int),
                _ => as_float(value).map_or_else(|| value.clone(), Value::from),
            };
            let precision = int_or_none(name, &precision)?.unwrap_or(0);
            native(name, number, [Value::from(precision), method])
        }
        "trim" => {
            let given = arguments.bind(name, 0, ["chars"])?;
            native(name, like(value, weighed(value)?), given)
        }
        _ if !plain => Err(error(format!("`{name}` takes no arguments here"))),
        "count" | "length" => length(value).map(Value::from),
        "first" => Ok(iterate(value)?.into_iter().next().unwrap_or_default()),
        "from_json" => json::load(&text(name, value)?),
        "items" if value.is_undefined() => Ok(generator(Vec::new())),
        "items" if Type::from_value(value) == Type::Dict => Ok(generator(entries(value))),
        "last" if value.as_str().is_some() => access::item(value, &Value::from(-1)),
        "last" if !is_generator(value) => Ok(iterate(value)?.pop().unwrap_or_default()),
        "list" => iterate(value).map(Value::from),
        "safe" => Ok(markup::markup(weighed(value)?)),
        "string" => Ok(like(value, weighed(value)?)),
        "pprint" => weighed(value).map(|_| Value::from(repr(value))),
        "forceescape" => Ok(markup::markup(markup::escaped(&weighed(value)?))),
        "e" | "escape" => weighed(value).map(|_| markup::markup(markup::escape(value))),
        "reverse" if value.as_str().is_none() => {
            let mut items = iterate(value)?;
            items.reverse();
            Ok(generator(items))
        }
        "urlencode" if Type::from_value(value) == Type::Dict => native(name, value.clone(), []),
        "capitalize" | "lower" | "reverse" | "title" | "upper" | "urlencode" => {
            native(name, like(value, weighed(value)?), [])
        }
        "wordcount" => {
            let text = weighed(value)?;
            let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
            Ok(Value::from(words.filter(|word| !word.is_empty()).count()))
        }
        _ => Err(error(format!(
            "`{name}` cannot be used on '{}'",
            Type::from_value(value)
        ))),
    }
}

fn plain_text(value: &Value) -> Result<Value, Error> {
    weighed(value).map(Value::from)
}

/// Parses an integer as Python's `int(text, base)`. White space around it, a sign, a prefix and
/// single underscores between digits are allowed.
fn parse_int(text: &str, base: i64) -> Option<i128> {
    let text = text.trim().to_lowercase();
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(&text);
    let prefix = match base {
        2 => "0b",
        8 => "0o",
        16 => "0x",
        _ => "",
    };
    let digits = unsigned.strip_prefix(prefix).unwrap_or(unsigned);
    let misplaced =
        digits.starts_with(['_', '+', '-']) || digits.ends_with('_') || digits.contains("__");
    if misplaced || !(2..=36).contains(&base) {
        return None;
    }
    let parsed = i128::from_str_radix(&digits.replace('_', ""), base as u32).ok()?;
    Some(if text.starts_with('-') {
        -parsed
    } else {
        parsed
    })
}

/// Returns the indentation for a number of spaces, or a text; `None` for other values.
fn indention(name: &str, width: &Value) -> Result<Option<String>, Error> {
    if let Some(text) = width.as_str() {
        return Ok(Some(text.to_owned()));
    }
    let spaces = |width: i64| " ".repeat(usize::try_from(width).unwrap_or(0).min(1000));
    int_or_none(name, width).map(|width| width.map(spaces))
}

fn indent(name: &str, value: &Value, arguments: Arguments) -> Result<Value, Error> {
    let [width, first, blank] = arguments.bind(name, 0, ["width", "first", "blank"])?;
    let indention = indention(name, &or(width, 4))?.unwrap_or_default();
    let text = weighed(value)?.into_owned() + "\n";
    let lines = split_lines(&text, false);
    budget::take(text.len() + lines.len().saturating_mul(16 + indention.len()))?;
    let mut out = String::new();
    for (index, line) in lines.into_iter().enumerate() {
        out.push_str(if index > 0 { "\n" } else { "" });
        let is_indented = match index {
            0 => first.is_true(),
            _ => blank.is_true() || !line.is_empty(),
        };
        out.push_str(if is_indented { &indention } else { "" });
        out.push_str(line);
    }
    Ok(like(value, out))
}

fn truncate(name: &str, value: &Value, arguments: Arguments) -> Result<Value, Error> {
    let names = ["length", "killwords", "end", "leeway"];
    let [length, kill_words, end, leeway] = arguments.bind(name, 0, names)?;
    let (length, leeway) = (size_or(name, &length, 255)?, size_or(name, &leeway, 5)?);
    let end = or(end, "...");
    let kept = length.saturating_sub(text(name, &end)?.chars().count());
    let text = weighed(value)?;
    if text.chars().count() <= length + leeway {
        return Ok(like(value, text));
    }
    let kept: String = text.chars().take(kept).collect();
    let words = kept.rfind(' ').filter(|_| !kill_words.is_true());
    add(&like(value, &kept[..words.unwrap_or(kept.len())]), &end)
}

/// Applies transformers' `tojson`: `json.dumps` that keeps characters unchanged and does not escape
/// HTML.
fn tojson(name: &str, value: &Value, arguments: Arguments) -> Result<Value, Error> {
    let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
    let [ascii, indent, separators, sort_keys] = arguments.bind(name, 0, names)?;
    let indent = indention(name, &indent)?;
    let default = [if indent.is_some() { "," } else { ", " }, ": "].map(Value::from);
    let separators = Some(separators).filter(|pair| is_given(pair) && !pair.is_none());
    let separators = separators.map_or_else(|| Ok(default.to_vec()), |pair| iterate(&pair))?;
    let [item_separator, key_separator] = separators.as_slice() else {
        return Err(error("`separators` must be two strings"));
    };
    let layout = Layout {
        indent,
        item_separator: text(name, item_separator)?,
        key_separator: text(name, key_separator)?,
        ascii: ascii.is_true(),
        sort_keys: sort_keys.is_true(),
    };
    json::dump(value, &layout).map(Value::from)
}
