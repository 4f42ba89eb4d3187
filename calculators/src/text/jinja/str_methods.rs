//! Methods of `str` that minijinja's `pycompat` lacks, or that it has without all of Python's
//! arguments.

use minijinja::formatting::FormatStyle;
use minijinja::value::{Tuple, Value};
use minijinja::{Error, State};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::arguments::{Arguments, int_or_none, size_or, text, text_or_none};
use super::budget;
use super::operators::formatted;
use super::value::{Type, error, items, iterate};

/// Names of all methods. They tell `"text".upper` from an attribute that does not exist.
#[rustfmt::skip]
pub(super) const NAMES: &[&str] = &[
    "capitalize", "casefold", "center", "count", "endswith", "expandtabs", "find", "format", "index", "isalnum",
    "isalpha", "isascii", "isdecimal", "isdigit", "islower", "isnumeric", "isspace",
    "isupper", "join", "ljust", "lower", "lstrip", "partition", "removeprefix", "removesuffix", "replace",
    "rfind", "rindex", "rjust", "rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith", "strip",
    "swapcase", "title", "upper", "zfill",
];

/// Calls `subject.name(arguments)`; `name` is one of [`NAMES`].
pub(super) fn call(
    state: &mut State<'_, '_>,
    object: &Value,
    name: &str,
    arguments: Arguments,
) -> Result<Value, Error> {
    let subject = object.as_str().unwrap_or_default();
    let made = match name {
        "format" => {
            let plain = Value::from(subject);
            let like = if object.is_safe() { object } else { &plain };
            return formatted(FormatStyle::StrFormat, like, subject, arguments);
        }
        "casefold" | "title" | "swapcase" => {
            let [] = arguments.bind(name, 0, [])?;
            Value::from(match name {
                "casefold" => subject.to_lowercase(),
                "title" => title(subject),
                _ => subject.chars().map(swap_case).collect(),
            })
        }
        "isdecimal" => unknown_method_callback(state, object, "isdigit", &arguments.into_values())?,
        "removeprefix" | "removesuffix" => {
            let [part] = arguments.bind(name, 1, ["part"])?;
            let part = text(name, &part)?;
            let rest = match name {
                "removeprefix" => subject.strip_prefix(&*part),
                _ => subject.strip_suffix(&*part),
            };
            Value::from(rest.unwrap_or(subject))
        }
        "replace" => {
            let [old, new, count] = arguments.bind(name, 2, ["old", "new", "count"])?;
            let (old, new) = (text(name, &old)?, text(name, &new)?);
            let most = int_or_none(name, &count)?.and_then(|count| usize::try_from(count).ok());
            let most = most.unwrap_or(usize::MAX);
            let found = subject.matches(&old).take(most).count();
            budget::take(
                found
                    .saturating_mul(new.len())
                    .saturating_add(subject.len()),
            )?;
            return Ok(Value::from(subject.replacen(&old, &new, most)));
        }
        "split" | "rsplit" => {
            let [separator, limit] = arguments.bind(name, 0, ["sep", "maxsplit"])?;
            let separator = text_or_none(name, &separator)?;
            let limit = int_or_none(name, &limit)?.and_then(|limit| usize::try_from(limit).ok());
            let limit = limit.unwrap_or(usize::MAX - 1);
            split(subject, separator.as_deref(), limit, name == "rsplit")?
        }
        "splitlines" => {
            let [keep_ends] = arguments.bind(name, 0, ["keepends"])?;
            let lines = split_lines(subject, keep_ends.is_true());
            lines.into_iter().collect()
        }
        "partition" | "rpartition" => {
            let [separator] = arguments.bind(name, 1, ["sep"])?;
            let separator = text(name, &separator)?;
            let found = match name {
                _ if separator.is_empty() => return Err(error("empty separator")),
                "partition" => subject.find(&separator),
                _ => subject.rfind(&separator),
            };
            let parts = match found {
                Some(at) => [&subject[..at], &separator, &subject[at + separator.len()..]],
                None if name == "partition" => [subject, "", ""],
                None => ["", "", subject],
            };
            Value::from(Tuple::from(parts.map(Value::from)))
        }
        "join" => {
            let [parts] = arguments.bind(name, 1, ["iterable"])?;
            let mut joined = String::new();
            for (index, part) in iterate(&parts)?.iter().enumerate() {
                let Some(part) = part.as_str() else {
                    let (what, found) = (format!("sequence item {index}"), Type::from_value(part));
                    return Err(error(format!(
                        "{what}: expected str instance, {found} found"
                    )));
                };
                budget::take(subject.len() + part.len())?;
                joined.push_str(if index > 0 { subject } else { "" });
                joined.push_str(part);
            }
            return Ok(Value::from(joined));
        }
        "startswith" | "endswith" => {
            let [part, start, end] = arguments.bind(name, 1, ["part", "start", "end"])?;
            let range = window(name, subject, [&start, &end])?;
            let parts = if part.is_tuple() {
                items(&part)
            } else {
                vec![part]
            };
            let mut matches = false;
            for part in parts {
                let part = text(name, &part)?;
                matches |= range.is_some_and(|(text, _)| match name {
                    "startswith" => text.starts_with(&part),
                    _ => text.ends_with(&part),
                });
            }
            Value::from(matches)
        }
        "count" | "find" | "rfind" | "index" | "rindex" => {
            let [part, start, end] = arguments.bind(name, 1, ["sub", "start", "end"])?;
            let part = text(name, &part)?;
            let range = window(name, subject, [&start, &end])?;
            if name == "count" {
                let count = range.map_or(0, |(text, _)| text.matches(&part).count());
                return Ok(Value::from(count));
            }
            let found = range.and_then(|(text, skipped)| {
                let at = match name {
                    "rfind" | "rindex" => text.rfind(&part),
                    _ => text.find(&part),
                }?;
                i64::try_from(skipped + text[..at].chars().count()).ok()
            });
            match found {
                None if name.ends_with("index") => return Err(error("substring not found")),
                found => Value::from(found.unwrap_or(-1)),
            }
        }
        "center" | "ljust" | "rjust" | "zfill" => {
            let [width, fill] = arguments.bind(name, 1, ["width", "fillchar"])?;
            let width = size_or(name, &width, 0)?;
            let fill = text_or_none(name, &fill)?.unwrap_or_else(|| " ".to_owned());
            if fill.chars().count() != 1 {
                return Err(error("the fill must be exactly one character long"));
            }
            let missing = width.saturating_sub(subject.chars().count());
            if missing > 1_000_000 {
                return Err(error("the padded text is too large"));
            }
            Value::from(match name {
                "ljust" => subject.to_owned() + &fill.repeat(missing),
                "rjust" => fill.repeat(missing) + subject,
                "zfill" => {
                    let digits = subject.strip_prefix(['-', '+']).unwrap_or(subject);
                    let sign = &subject[..subject.len() - digits.len()];
                    format!("{sign}{}{digits}", "0".repeat(missing))
                }
                _ => {
                    let left = missing / 2 + (missing & width & 1);
                    fill.repeat(left) + subject + &fill.repeat(missing - left)
                }
            })
        }
        "expandtabs" => {
            let [size] = arguments.bind(name, 0, ["tabsize"])?;
            let size = size_or(name, &size, 8)?;
            let tabs = subject.matches('\t').count();
            budget::take(subject.len().saturating_add(tabs.saturating_mul(size)))?;
            Value::from(expand_tabs(subject, size))
        }
        _ => unknown_method_callback(state, object, name, &arguments.into_values())?,
    };
    budget::spend_items(made.as_object().and_then(|_| made.len()).unwrap_or(0));
    budget::take(subject.len() + made.as_str().map_or(0, str::len))?;
    Ok(made)
}

/// Evaluates `str.isspace` for one character: Unicode's white space and the four ASCII separators.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

fn is_cased(c: char) -> bool {
    c.is_lowercase() || c.is_uppercase()
}

/// Capitalizes each run of letters. Any other character ends a run, apostrophes too.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        if inside {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        inside = is_cased(c);
    }
    out
}

fn swap_case(c: char) -> char {
    if c.is_uppercase() {
        return c.to_lowercase().next().unwrap_or(c);
    }
    c.to_uppercase().next().unwrap_or(c)
}

/// Returns the characters from `start` to `end` as Python counts them, and the number of characters
/// before; `None` if the range is void.
fn window<'a>(
    name: &str,
    text: &'a str,
    [start, end]: [&Value; 2],
) -> Result<Option<(&'a str, usize)>, Error> {
    let (start, end) = (int_or_none(name, start)?, int_or_none(name, end)?);
    if start.is_none() && end.is_none() {
        return Ok(Some((text, 0)));
    }
    let len = text.chars().count() as i64;
    let place = |at: i64| if at < 0 { (at + len).max(0) } else { at };
    let first = place(start.unwrap_or(0));
    let last = place(end.unwrap_or(len)).min(len);
    let nth = |at: i64| text.char_indices().nth(at as usize);
    let byte = |at: i64| nth(at).map_or(text.len(), |(byte, _)| byte);
    Ok((first <= last).then(|| (&text[byte(first)..byte(last)], first as usize)))
}

fn split(text: &str, mark: Option<&str>, limit: usize, from_right: bool) -> Result<Value, Error> {
    let mut parts: Vec<&str> = match mark {
        Some("") => return Err(error("empty separator")),
        Some(mark) if from_right => text.rsplitn(limit + 1, mark).collect(),
        Some(mark) => text.splitn(limit + 1, mark).collect(),
        None => split_spaces(text, limit, from_right),
    };
    if from_right {
        parts.reverse();
    }
    Ok(parts.into_iter().collect())
}

/// Splits at runs of white space, from one end. The part that the limit leaves unsplit keeps the
/// spaces at its far end.
fn split_spaces(text: &str, limit: usize, from_right: bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let (near, gap) = if from_right {
            let near = rest.trim_end_matches(is_space);
            (near, near.rfind(is_space))
        } else {
            let near = rest.trim_start_matches(is_space);
            (near, near.find(is_space))
        };
        let Some(gap) = gap.filter(|_| parts.len() < limit) else {
            parts.extend(Some(near).filter(|near| !near.is_empty()));
            return parts;
        };
        let (before, after) = near.split_at(gap);
        let (part, remainder) = if from_right {
            (after, before)
        } else {
            (before, after)
        };
        parts.push(part.trim_start_matches(is_space));
        rest = remainder;
    }
}

/// Evaluates `splitlines`, with the line ends or without.
pub(super) fn split_lines(text: &str, keep_ends: bool) -> Vec<&str> {
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

fn expand_tabs(text: &str, size: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut column = 0;
    for c in text.chars() {
        if c == '\t' {
            let spaces = if size > 0 { size - column % size } else { 0 };
            out.extend(std::iter::repeat_n(' ', spaces));
            column += spaces;
        } else {
            out.push(c);
            column += 1;
            column *= usize::from(!matches!(c, '\n' | '\r'));
        }
    }
    out
}
