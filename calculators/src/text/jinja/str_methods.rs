//! Methods of `str` that minijinja's `pycompat` lacks, that it has without Python's keyword
//! arguments or errors, or whose result can be much larger than the text.

use minijinja::formatting::FormatStyle;
use minijinja::value::{Tuple, Value};
use minijinja::{Error, State};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::arguments::{Arguments, int_or_none, text, text_or_none};
use super::budget;
use super::operators::formatted;
use super::value::{Type, error, iterate};

/// Names of all methods. They tell `"text".upper` from an attribute that does not exist.
#[rustfmt::skip]
pub(super) const NAMES: &[&str] = &[
    "capitalize", "count", "endswith", "find", "format", "index", "isalnum", "isalpha", "isascii", "isdigit", "islower",
    "isnumeric", "isspace", "isupper", "join", "lower", "lstrip", "partition", "removeprefix", "removesuffix",
    "replace", "rfind", "rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "title", "upper",
];

/// Calls `subject.name(arguments)`; `name` is one of [`NAMES`].
pub(super) fn call(
    state: &mut State<'_, '_>,
    object: &Value,
    name: &str,
    arguments: Arguments,
) -> Result<Value, Error> {
    let subject = object.as_str().unwrap_or_default();
    let mut native = |name: &str, arguments: Vec<Value>| {
        unknown_method_callback(state, &Value::from(subject), name, &arguments)
    };
    let made = match name {
        "format" => return formatted(FormatStyle::StrFormat, subject, arguments),
        "join" => {
            let [parts] = arguments.bind(name, 1, ["iterable"])?;
            return join(subject, &iterate(&parts.unwrap_or_default())?);
        }
        "index" => match native("find", arguments.into_values())? {
            found if found == Value::from(-1) => return Err(error("substring not found")),
            found => found,
        },
        "removeprefix" | "removesuffix" => {
            let [part] = arguments.bind(name, 1, ["part"])?;
            let part = text(name, part)?;
            let rest = match name {
                "removeprefix" => subject.strip_prefix(&*part),
                _ => subject.strip_suffix(&*part),
            };
            Value::from(rest.unwrap_or(subject))
        }
        "replace" => {
            let [old, new, count] = arguments.bind(name, 2, ["old", "new", "count"])?;
            let (old, new) = (text(name, old)?, text(name, new)?);
            let most = int_or_none(name, count)?.and_then(|count| usize::try_from(count).ok());
            let most = most.unwrap_or(usize::MAX);
            let found = subject.matches(&old).take(most).count();
            budget::take(
                subject
                    .len()
                    .saturating_add(found.saturating_mul(new.len())),
            )?;
            return Ok(Value::from(subject.replacen(&old, &new, most)));
        }
        "split" | "rsplit" => {
            let [mark, limit] = arguments.bind(name, 0, ["sep", "maxsplit"])?;
            let (mark, limit) = (text_or_none(name, mark)?, int_or_none(name, limit)?);
            let count = limit.and_then(|limit| usize::try_from(limit).ok());
            let count = count.map_or(usize::MAX, |limit| limit.saturating_add(1));
            match mark.as_deref() {
                Some("") => return Err(error("empty separator")),
                Some(mark) if name == "rsplit" => {
                    let mut parts: Vec<&str> = subject.rsplitn(count, mark).collect();
                    parts.reverse();
                    parts.into_iter().collect()
                }
                // minijinja splits at spaces, from the left.
                None if name == "rsplit" => return Err(error("rsplit() needs a separator")),
                mark => native("split", vec![Value::from(mark), Value::from(limit)])?,
            }
        }
        "partition" | "rpartition" => {
            let [mark] = arguments.bind(name, 1, ["sep"])?;
            let mark = text(name, mark)?;
            let parts = match name {
                _ if mark.is_empty() => return Err(error("empty separator")),
                "partition" => subject.split_once(&*mark),
                _ => subject.rsplit_once(&*mark),
            };
            let parts = match parts {
                Some((before, after)) => [before, &mark, after],
                None if name == "partition" => [subject, "", ""],
                None => ["", "", subject],
            };
            Value::from(Tuple::from(parts.map(Value::from)))
        }
        _ => native(name, arguments.into_values())?,
    };
    budget::spend_items(made.as_object().and_then(|_| made.len()).unwrap_or(0));
    budget::take(subject.len() + made.as_str().map_or(0, str::len))?;
    Ok(made)
}

fn join(separator: &str, parts: &[Value]) -> Result<Value, Error> {
    let mut joined = String::new();
    for (index, part) in parts.iter().enumerate() {
        let found = Type::from_value(part);
        let wrong = || format!("sequence item {index}: expected str instance, {found} found");
        let part = part.as_str().ok_or_else(|| error(wrong()))?;
        budget::take(separator.len() + part.len())?;
        joined.push_str(if index > 0 { separator } else { "" });
        joined.push_str(part);
    }
    Ok(Value::from(joined))
}
