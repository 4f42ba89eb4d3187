//! Filters on text.

use minijinja::value::Value;
use minijinja::{Error, State};

use super::super::python::budget;
use super::super::python::call::{Arguments, flag, int_or_none, required, text};
use super::super::python::json::{self, Layout};
use super::super::python::markup::{self, is_markup, like};
use super::super::python::ops;
use super::super::python::str_methods;
use super::super::python::text::{repr, str};
use super::super::python::value::{Type, as_int, error, pairs};

fn simple(
    name: &str,
    value: &Value,
    arguments: Arguments,
    change: impl FnOnce(&str) -> String,
) -> Result<Value, Error> {
    let [] = arguments.bind(name, [])?;
    let text = str(value);
    budget::take(text.len())?;
    Ok(like(value, change(&text)))
}

/// Marks text as markup, which escapes what is added to it.
pub(super) fn safe(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [] = arguments.bind(name, [])?;
    Ok(markup::markup(str(value)))
}

pub(super) fn string(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    simple(name, value, arguments, str::to_owned)
}

pub(super) fn upper(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    simple(name, value, arguments, str::to_uppercase)
}

pub(super) fn lower(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    simple(name, value, arguments, str::to_lowercase)
}

pub(super) fn capitalize(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    simple(name, value, arguments, str_methods::capitalize)
}

/// jinja2's own `title`: words are split at spaces, hyphens and opening brackets only.
pub(super) fn title(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    // Not markup even where the text was.
    let text = Value::from(str(value).into_owned());
    simple(name, &text, arguments, |text| {
        let mut start = true;
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            if start {
                out.extend(c.to_uppercase());
            } else {
                out.extend(c.to_lowercase());
            }
            start = str_methods::is_space(c) || matches!(c, '-' | '(' | '{' | '[' | '<');
        }
        out
    })
}

pub(super) fn pprint(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [] = arguments.bind(name, [])?;
    Ok(Value::from(repr(value)))
}

/// `escape`, and `forceescape`, which escapes markup too.
pub(super) fn escape(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [] = arguments.bind(name, [])?;
    Ok(markup::markup(if name == "forceescape" {
        markup::escaped(&str(value))
    } else {
        markup::escape(value)
    }))
}

/// A filter that is the string method of the same name.
pub(super) fn method(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    mut arguments: Arguments,
) -> Result<Value, Error> {
    if arguments.positional.is_empty() && arguments.keyword.is_empty() {
        arguments.positional.push(Value::from(80));
    }
    let text = str(value);
    if is_markup(value) {
        return markup::call(&text, name, arguments);
    }
    str_methods::call(&text, name, arguments)
}

pub(super) fn trim(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [chars] = arguments.bind(name, ["chars"])?;
    let positional = chars.into_iter().collect();
    let stripped = str_methods::call(
        &str(value),
        "strip",
        Arguments {
            positional,
            keyword: Vec::new(),
        },
    )?;
    Ok(like(value, str(&stripped)))
}

pub(super) fn replace(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [old, new, count] = arguments.bind(name, ["old", "new", "count"])?;
    let (old, new) = (required(name, "old", old)?, required(name, "new", new)?);
    let mut positional = vec![Value::from(str(&old)), Value::from(str(&new))];
    positional.extend(count.filter(|count| !count.is_none()));
    str_methods::call(
        &str(value),
        "replace",
        Arguments {
            positional,
            keyword: Vec::new(),
        },
    )
}

pub(super) fn format(
    _: &mut State<'_, '_>,
    _: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let Arguments {
        positional,
        keyword,
    } = arguments;
    if !keyword.is_empty() {
        return Err(error("`format` takes positional arguments here"));
    }
    ops::printf(value, &str(value), &positional)
}

pub(super) fn indent(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [width, first, blank] = arguments.bind(name, ["width", "first", "blank"])?;
    let indention = match width.as_ref().and_then(Value::as_str) {
        Some(text) => text.to_owned(),
        None => " ".repeat(
            usize::try_from(int_or_none(name, width.as_ref())?.unwrap_or(4))
                .unwrap_or(0)
                .min(1000),
        ),
    };
    let (first, blank) = (flag(first.as_ref()), flag(blank.as_ref()));
    let text = str(value).into_owned() + "\n";
    let lines = str_methods::lines(&text);
    budget::take(text.len() + lines.len().saturating_mul(16 + indention.len()))?;
    let mut out = String::new();
    for (index, line) in lines.into_iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        if if index == 0 {
            first
        } else {
            blank || !line.is_empty()
        } {
            out.push_str(&indention);
        }
        out.push_str(line);
    }
    Ok(like(value, out))
}

pub(super) fn truncate(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [length, kill_words, end, leeway] =
        arguments.bind(name, ["length", "killwords", "end", "leeway"])?;
    let number = |value: Option<&Value>, default: usize| -> Result<usize, Error> {
        Ok(int_or_none(name, value)?.map_or(default, |int| usize::try_from(int).unwrap_or(0)))
    };
    let (length, leeway) = (number(length.as_ref(), 255)?, number(leeway.as_ref(), 5)?);
    let end = end.filter(|end| !end.is_none());
    let end = end.unwrap_or_else(|| Value::from("..."));
    let end_length = text(name, &end)?.chars().count();
    let text = str(value);
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
    ops::add(&like(value, kept), &end)
}

pub(super) fn wordcount(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [] = arguments.bind(name, [])?;
    let text = str(value);
    let words = text
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
        .count();
    Ok(Value::from(words))
}

pub(super) fn urlencode(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [] = arguments.bind(name, [])?;
    if Type::of(value) == Type::Dict {
        let query: Vec<String> = pairs(value)
            .iter()
            .map(|(key, value)| {
                std::format!(
                    "{}={}",
                    percent(&str(key), false),
                    percent(&str(value), false)
                )
            })
            .collect();
        return Ok(Value::from(query.join("&")));
    }
    Ok(Value::from(percent(&str(value), true)))
}

fn percent(text: &str, keep_slash: bool) -> String {
    let keep = |byte: u8| {
        byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || (keep_slash && byte == b'/')
    };
    text.bytes()
        .map(|byte| {
            if keep(byte) {
                char::from(byte).to_string()
            } else {
                std::format!("%{byte:02X}")
            }
        })
        .collect()
}

/// transformers' `tojson`: `json.dumps` that keeps characters as they are and escapes no HTML.
pub(super) fn tojson(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [ascii, indent, separators, sort_keys] =
        arguments.bind(name, ["ensure_ascii", "indent", "separators", "sort_keys"])?;
    let indent = match indent.filter(|indent| !indent.is_none()) {
        None => None,
        Some(indent) => Some(match (indent.as_str(), as_int(&indent)) {
            (Some(text), _) => text.to_owned(),
            (None, Some(width)) => " ".repeat(usize::try_from(width).unwrap_or(0).min(1000)),
            (None, None) => return Err(error("`indent` must be a number or a string")),
        }),
    };
    let (item_separator, key_separator) =
        match separators.filter(|separators| !separators.is_none()) {
            None => (
                if indent.is_some() { "," } else { ", " }.to_owned(),
                ": ".to_owned(),
            ),
            Some(pair) => {
                let part = |index| {
                    pair.get_item_by_index(index)
                        .ok()
                        .and_then(|part| part.as_str().map(str::to_owned))
                };
                part(0)
                    .zip(part(1))
                    .ok_or_else(|| error("`separators` must be two strings"))?
            }
        };
    let layout = Layout {
        indent,
        item_separator,
        key_separator,
        ascii: flag(ascii.as_ref()),
        sort_keys: flag(sort_keys.as_ref()),
    };
    json::dump(value, &layout).map(Value::from)
}

pub(super) fn from_json(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [] = arguments.bind(name, [])?;
    match value.as_str() {
        Some(text) => json::load(text),
        None => Err(error(std::format!(
            "the JSON object must be str, not {}",
            Type::of(value).name()
        ))),
    }
}
