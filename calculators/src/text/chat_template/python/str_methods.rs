//! The methods of `str`.

use minijinja::Error;
use minijinja::formatting::FormatStyle;
use minijinja::value::{Tuple, Value};

use super::budget;
use super::call::{Arguments, flag, int_or_none, required, text, text_or_none};
use super::ops::{formatted, printable};
use super::text::is_printable;
use super::value::{Type, error, items, iterate};

/// Every method there is: what tells `"text".upper` from an attribute that does not exist.
pub(crate) const NAMES: &[&str] = &[
    "capitalize",
    "casefold",
    "center",
    "count",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "upper",
    "zfill",
];

/// Calls `subject.name(arguments)`; `name` is one of [`NAMES`].
pub(crate) fn call(subject: &str, name: &str, arguments: Arguments) -> Result<Value, Error> {
    match name {
        "format" => {
            let mut values = printable(&arguments.positional);
            if !arguments.keyword.is_empty() {
                let keyword = arguments.keyword.into_iter().map(|(name, value)| {
                    let value = printable(&[value]).pop().unwrap_or_default();
                    (name, value)
                });
                values.push(Value::from(keyword.collect::<minijinja::value::Kwargs>()));
            }
            formatted(FormatStyle::StrFormat, subject, &values).map(Value::from)
        }
        "upper" => no_arguments(name, arguments, || subject.to_uppercase()),
        "lower" | "casefold" => no_arguments(name, arguments, || subject.to_lowercase()),
        "capitalize" => no_arguments(name, arguments, || capitalize(subject)),
        "title" => no_arguments(name, arguments, || title(subject)),
        "swapcase" => no_arguments(name, arguments, || {
            subject.chars().map(swap_case).collect::<String>()
        }),
        "isalnum" => no_arguments(name, arguments, || every(subject, char::is_alphanumeric)),
        "isalpha" => no_arguments(name, arguments, || every(subject, char::is_alphabetic)),
        "isascii" => no_arguments(name, arguments, || subject.is_ascii()),
        "isdecimal" | "isdigit" | "isnumeric" => {
            no_arguments(name, arguments, || every(subject, char::is_numeric))
        }
        "isidentifier" => no_arguments(name, arguments, || {
            every(subject, |c| c.is_alphanumeric() || c == '_')
                && !subject.starts_with(char::is_numeric)
        }),
        "islower" => no_arguments(name, arguments, || {
            subject.chars().any(char::is_lowercase) && !subject.chars().any(char::is_uppercase)
        }),
        "isupper" => no_arguments(name, arguments, || {
            subject.chars().any(char::is_uppercase) && !subject.chars().any(char::is_lowercase)
        }),
        "isprintable" => no_arguments(name, arguments, || subject.chars().all(is_printable)),
        "isspace" => no_arguments(name, arguments, || every(subject, is_space)),
        "istitle" => no_arguments(name, arguments, || {
            subject
                .chars()
                .any(|c| c.is_uppercase() || c.is_lowercase())
                && title(subject) == subject
        }),
        "strip" | "lstrip" | "rstrip" => {
            let [set] = arguments.bind(name, ["chars"])?;
            let set = text_or_none(name, set.as_ref())?;
            let strips = |c: char| {
                set.as_ref()
                    .map_or_else(|| is_space(c), |set| set.contains(c))
            };
            let stripped = if name == "rstrip" {
                subject
            } else {
                subject.trim_start_matches(strips)
            };
            Ok(Value::from(if name == "lstrip" {
                stripped
            } else {
                stripped.trim_end_matches(strips)
            }))
        }
        "removeprefix" | "removesuffix" => {
            let [part] = arguments.bind(name, ["part"])?;
            let part = text(name, &required(name, "part", part)?)?;
            let rest = if name == "removeprefix" {
                subject.strip_prefix(&*part)
            } else {
                subject.strip_suffix(&*part)
            };
            Ok(Value::from(rest.unwrap_or(subject)))
        }
        "replace" => {
            let [old, new, count] = arguments.bind(name, ["old", "new", "count"])?;
            let (old, new) = (
                text(name, &required(name, "old", old)?)?,
                text(name, &required(name, "new", new)?)?,
            );
            let count = int_or_none(name, count.as_ref())?.unwrap_or(-1);
            let most = usize::try_from(count).unwrap_or(usize::MAX);
            let found = subject.matches(&old).take(most).count();
            budget::take(
                subject
                    .len()
                    .saturating_add(found.saturating_mul(new.len())),
            )?;
            Ok(Value::from(usize::try_from(count).map_or_else(
                |_| subject.replace(&old, &new),
                |count| subject.replacen(&old, &new, count),
            )))
        }
        "split" | "rsplit" => {
            let [separator, limit] = arguments.bind(name, ["sep", "maxsplit"])?;
            let separator = text_or_none(name, separator.as_ref())?;
            let limit =
                int_or_none(name, limit.as_ref())?.and_then(|limit| usize::try_from(limit).ok());
            split(subject, separator.as_deref(), limit, name == "rsplit")
        }
        "splitlines" => {
            let [keep_ends] = arguments.bind(name, ["keepends"])?;
            let lines = split_lines(subject, flag(keep_ends.as_ref()));
            budget::spend_items(lines.len());
            budget::take(subject.len())?;
            Ok(lines.into_iter().map(Value::from).collect())
        }
        "partition" | "rpartition" => {
            let [separator] = arguments.bind(name, ["sep"])?;
            let separator = text(name, &required(name, "sep", separator)?)?;
            if separator.is_empty() {
                return Err(error("empty separator"));
            }
            let parts = match if name == "partition" {
                subject.find(&separator)
            } else {
                subject.rfind(&separator)
            } {
                Some(at) => [&subject[..at], &separator, &subject[at + separator.len()..]],
                None if name == "partition" => [subject, "", ""],
                None => ["", "", subject],
            };
            Ok(Value::from(Tuple::from(parts.map(Value::from))))
        }
        "join" => {
            let [parts] = arguments.bind(name, ["iterable"])?;
            let parts = iterate(&required(name, "iterable", parts)?)?;
            let mut joined = String::new();
            for (index, part) in parts.iter().enumerate() {
                let own = part.as_str().map_or(0, str::len);
                budget::take(subject.len() + own)?;
                if index > 0 {
                    joined.push_str(subject);
                }
                joined.push_str(part.as_str().ok_or_else(|| {
                    error(format!(
                        "sequence item {index}: expected str instance, {} found",
                        Type::of(part).name()
                    ))
                })?);
            }
            Ok(Value::from(joined))
        }
        "startswith" | "endswith" => {
            let [part, start, end] = arguments.bind(name, ["part", "start", "end"])?;
            let part = required(name, "part", part)?;
            let range = window(
                subject,
                int_or_none(name, start.as_ref())?,
                int_or_none(name, end.as_ref())?,
            );
            let matches = |part: &Value| -> Result<bool, Error> {
                let part = text(name, part)?;
                Ok(range.is_some_and(|(text, _)| {
                    if name == "startswith" {
                        text.starts_with(&part)
                    } else {
                        text.ends_with(&part)
                    }
                }))
            };
            if !part.is_tuple() {
                return matches(&part).map(Value::from);
            }
            for part in items(&part) {
                if matches(&part)? {
                    return Ok(Value::from(true));
                }
            }
            Ok(Value::from(false))
        }
        "count" | "find" | "rfind" | "index" | "rindex" => {
            let [part, start, end] = arguments.bind(name, ["sub", "start", "end"])?;
            let part = text(name, &required(name, "sub", part)?)?;
            let range = window(
                subject,
                int_or_none(name, start.as_ref())?,
                int_or_none(name, end.as_ref())?,
            );
            if name == "count" {
                return Ok(Value::from(
                    range.map_or(0, |(text, _)| text.matches(&part).count()),
                ));
            }
            let found = range.and_then(|(text, skipped)| {
                let at = if name.starts_with('r') {
                    text.rfind(&part)
                } else {
                    text.find(&part)
                }?;
                i64::try_from(skipped + text[..at].chars().count()).ok()
            });
            match found {
                None if name.ends_with("index") => Err(error("substring not found")),
                found => Ok(Value::from(found.unwrap_or(-1))),
            }
        }
        "center" | "ljust" | "rjust" | "zfill" => {
            let [width, fill] = arguments.bind(name, ["width", "fillchar"])?;
            let width = int_or_none(name, width.as_ref())?
                .ok_or_else(|| error(format!("{name}() needs a width")))?;
            budget::take(subject.len() + usize::try_from(width).unwrap_or(0))?;
            let fill = text_or_none(name, fill.as_ref())?.unwrap_or_else(|| " ".to_owned());
            Ok(Value::from(pad(
                subject,
                name,
                usize::try_from(width).unwrap_or(0),
                &fill,
            )?))
        }
        "expandtabs" => {
            let [size] = arguments.bind(name, ["tabsize"])?;
            let size = usize::try_from(int_or_none(name, size.as_ref())?.unwrap_or(8)).unwrap_or(0);
            let tabs = subject.matches('\t').count();
            budget::take(subject.len().saturating_add(tabs.saturating_mul(size)))?;
            Ok(Value::from(expand_tabs(subject, size)))
        }
        _ => Err(error(format!("'str' object has no attribute '{name}'"))),
    }
}

fn no_arguments<T: Into<Value>>(
    name: &str,
    arguments: Arguments,
    result: impl FnOnce() -> T,
) -> Result<Value, Error> {
    let [] = arguments.bind(name, [])?;
    let made: Value = result().into();
    budget::take(made.as_str().map_or(0, str::len))?;
    Ok(made)
}

fn every(text: &str, holds: impl Fn(char) -> bool) -> bool {
    !text.is_empty() && text.chars().all(holds)
}

/// `str.isspace` of one character: Unicode's white space and the four ASCII separators.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

pub(crate) fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first
            .to_uppercase()
            .chain(chars.as_str().to_lowercase().chars())
            .collect()
    })
}

/// Each run of letters starts with a capital; what is no letter ends a run, apostrophes too.
pub(crate) fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        let cased = c.is_lowercase() || c.is_uppercase();
        if inside {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        inside = cased;
    }
    out
}

fn swap_case(c: char) -> char {
    let swapped = if c.is_uppercase() {
        c.to_lowercase().next()
    } else {
        c.to_uppercase().next()
    };
    swapped.unwrap_or(c)
}

/// The characters from `start` to `end` as Python counts them, with how many come before; `None` where the range is void.
fn window(text: &str, start: Option<i64>, end: Option<i64>) -> Option<(&str, usize)> {
    if start.is_none() && end.is_none() {
        return Some((text, 0));
    }
    let len = text.chars().count() as i64;
    let place = |at: i64| if at < 0 { (at + len).max(0) } else { at };
    let (first, last) = (
        place(start.unwrap_or(0)),
        place(end.unwrap_or(len)).min(len),
    );
    if first > last {
        return None;
    }
    let byte = |at: i64| {
        text.char_indices()
            .nth(at as usize)
            .map_or(text.len(), |(byte, _)| byte)
    };
    Some((&text[byte(first)..byte(last)], first as usize))
}

fn split(
    text: &str,
    separator: Option<&str>,
    limit: Option<usize>,
    from_right: bool,
) -> Result<Value, Error> {
    let parts: Vec<&str> = match (separator, limit) {
        (Some(""), _) => return Err(error("empty separator")),
        (Some(separator), None) => text.split(separator).collect(),
        (Some(separator), Some(limit)) if from_right => {
            let mut parts: Vec<&str> = text.rsplitn(limit + 1, separator).collect();
            parts.reverse();
            parts
        }
        (Some(separator), Some(limit)) => text.splitn(limit + 1, separator).collect(),
        (None, None) => text
            .split(is_space)
            .filter(|part| !part.is_empty())
            .collect(),
        (None, Some(limit)) => split_spaces(text, limit, from_right),
    };
    budget::spend_items(parts.len());
    budget::take(text.len())?;
    Ok(Value::from(
        parts.into_iter().map(Value::from).collect::<Vec<_>>(),
    ))
}

/// Splits at runs of white space. What the limit leaves unsplit keeps the spaces at its far end.
fn split_spaces(text: &str, limit: usize, from_right: bool) -> Vec<&str> {
    let trim = |rest: &'_ str| {
        if from_right {
            rest.trim_end_matches(is_space).len()
        } else {
            rest.trim_start_matches(is_space).len()
        }
    };
    let near = |rest: &str| -> std::ops::Range<usize> {
        let len = trim(rest);
        if from_right {
            0..len
        } else {
            rest.len() - len..rest.len()
        }
    };
    let mut parts = Vec::new();
    let mut rest = &text[near(text)];
    while !rest.is_empty() {
        let gap = if from_right {
            rest.rfind(is_space)
        } else {
            rest.find(is_space)
        };
        let Some(gap) = gap.filter(|_| parts.len() < limit) else {
            parts.push(rest);
            break;
        };
        let width = rest[gap..].chars().next().map_or(1, char::len_utf8);
        let (part, remainder) = if from_right {
            (&rest[gap + width..], &rest[..gap])
        } else {
            (&rest[..gap], &rest[gap..])
        };
        parts.push(part);
        rest = &remainder[near(remainder)];
    }
    if from_right {
        parts.reverse();
    }
    parts
}

/// `splitlines`, with the line ends or without.
fn split_lines(text: &str, keep_ends: bool) -> Vec<&str> {
    let is_break = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(is_break).unwrap_or(rest.len());
        let width = match &rest[end..] {
            tail if tail.starts_with("\r\n") => 2,
            tail => tail.chars().next().map_or(0, char::len_utf8),
        };
        lines.push(&rest[..if keep_ends { end + width } else { end }]);
        rest = &rest[end + width..];
    }
    lines
}

/// The lines of a text without their ends.
pub(crate) fn lines(text: &str) -> Vec<&str> {
    split_lines(text, false)
}

fn pad(text: &str, name: &str, width: usize, fill: &str) -> Result<String, Error> {
    let mut filler = fill.chars();
    let (Some(fill), None) = (filler.next(), filler.next()) else {
        return Err(error(
            "The fill character must be exactly one character long",
        ));
    };
    let missing = width.saturating_sub(text.chars().count());
    if missing > 1_000_000 {
        return Err(error("the padded text is too large"));
    }
    let fills = |count: usize| std::iter::repeat_n(fill, count).collect::<String>();
    Ok(match name {
        "ljust" => text.to_owned() + &fills(missing),
        "rjust" => fills(missing) + text,
        "zfill" => {
            let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
            let sign = &text[..text.len() - digits.len()];
            format!("{sign}{}{digits}", "0".repeat(missing))
        }
        _ => {
            let left = missing / 2 + (missing & width & 1);
            format!("{}{text}{}", fills(left), fills(missing - left))
        }
    })
}

fn expand_tabs(text: &str, size: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut column = 0;
    for c in text.chars() {
        match c {
            '\t' if size > 0 => {
                let spaces = size - column % size;
                out.extend(std::iter::repeat_n(' ', spaces));
                column += spaces;
            }
            '\t' => {}
            _ => {
                out.push(c);
                column = if matches!(c, '\n' | '\r') {
                    0
                } else {
                    column + 1
                };
            }
        }
    }
    out
}
