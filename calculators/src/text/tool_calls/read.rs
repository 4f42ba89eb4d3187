//! Reads calls from a text that may not be there in full yet.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::scan::{Scanned, Scans};

/// Why nothing was read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The text is the beginning of what is expected.
    More,
    /// The text is something else, however it goes on.
    Not,
}

pub(crate) type Read<T> = Result<T, Stop>;

/// A call as far as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call<'a> {
    pub(super) name: Cow<'a, str>,
    /// A JSON object, or the beginning of one.
    pub(super) arguments: Cow<'a, str>,
    pub(super) complete: bool,
}

/// A place in a text. What was read of a text is read alike of every text that begins with it.
pub(crate) struct Reader<'a, 's> {
    text: &'a str,
    at: usize,
    /// Whether no more text comes.
    end: bool,
    scans: &'s mut Scans,
}

impl<'a, 's> Reader<'a, 's> {
    pub(super) fn new(text: &'a str, at: usize, end: bool, scans: &'s mut Scans) -> Self {
        Self {
            text,
            at,
            end,
            scans,
        }
    }

    /// Bytes that were read.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Skips white space.
    pub(super) fn space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// The next character, which stays.
    pub(super) fn peek(&self) -> Read<char> {
        self.rest().chars().next().ok_or(Stop::More)
    }

    pub(super) fn literal(&mut self, literal: &str) -> Read<()> {
        if self.rest().starts_with(literal) {
            self.at += literal.len();
            Ok(())
        } else if literal.starts_with(self.rest()) {
            Err(Stop::More)
        } else {
            Err(Stop::Not)
        }
    }

    /// Makes sure that a literal comes next; it stays.
    pub(super) fn ahead(&mut self, literal: &str) -> Read<()> {
        let before = self.at;
        let read = self.literal(literal);
        self.at = before;
        read
    }

    /// All that is left, once no more comes.
    pub(super) fn remaining(&mut self) -> Read<&'a str> {
        let rest = self.rest();
        if !self.end {
            return Err(Stop::More);
        }
        self.at = self.text.len();
        Ok(rest)
    }

    /// A string between double quotes, with JSON's escapes.
    pub(super) fn text(&mut self) -> Read<String> {
        let rest = self.rest();
        self.literal("\"")?;
        let mut escaped = false;
        let end = rest.char_indices().skip(1).find_map(|(at, c)| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends.then_some(at + 1)
        });
        let end = end.ok_or(Stop::More)?;
        self.at += end - 1;
        serde_json::from_str(&rest[..end]).map_err(|_| Stop::Not)
    }

    /// Reads what `read` reads, or, where the text is something else, nothing.
    pub(super) fn optional<T>(&mut self, read: impl Fn(&mut Self) -> Read<T>) -> Read<Option<T>> {
        let before = self.at;
        match read(self) {
            Ok(found) => Ok(Some(found)),
            Err(Stop::More) if !self.end => Err(Stop::More),
            Err(_) => {
                self.at = before;
                Ok(None)
            }
        }
    }

    /// White space and a literal that may be missing.
    pub(super) fn closing(&mut self, literal: &str) -> Read<()> {
        let close = |reader: &mut Self| {
            reader.space();
            reader.literal(literal)
        };
        self.optional(close).map(drop)
    }

    /// The text before the first of the marks, none of which may begin another, and which mark it
    /// is. The mark is skipped.
    pub(super) fn until(&mut self, marks: &[&str]) -> Read<(&'a str, usize)> {
        let rest = self.rest();
        let found = marks
            .iter()
            .enumerate()
            .filter_map(|(index, mark)| Some((rest.find(mark)?, index)))
            .min()
            .ok_or(Stop::More)?;
        self.at += found.0 + marks[found.1].len();
        Ok((&rest[..found.0], found.1))
    }

    /// A tool's name: letters, digits, `_`, `-` and `.`, up to another character.
    pub(super) fn name(&mut self) -> Read<&'a str> {
        let rest = self.rest();
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || "_-.".contains(c)))
            .ok_or(Stop::More)?;
        if end == 0 {
            return Err(Stop::Not);
        }
        self.at += end;
        Ok(&rest[..end])
    }

    /// A JSON object or array. What can be one of it, if it goes on or fails.
    pub(super) fn value(&mut self) -> Result<&'a str, (Stop, &'a str)> {
        let start = self.at;
        match self.scans.value(self.text, start) {
            Scanned::Ends(end) => {
                self.at = end;
                Ok(&self.text[start..end])
            }
            Scanned::More => Err((Stop::More, &self.text[start..])),
            Scanned::Not(at) => Err((Stop::Not, &self.text[start..at])),
        }
    }

    /// The arguments of a call to `name`, as an object; adds the call, as far as it goes.
    pub(super) fn arguments(&mut self, name: &'a str, calls: &mut Vec<Call<'a>>) -> Read<()> {
        if self.peek()? != '{' {
            return Err(Stop::Not);
        }
        let (arguments, result) = match self.value() {
            Ok(arguments) => (arguments, Ok(())),
            Err((stop, begun)) => (begun, Err(stop)),
        };
        calls.push(Call {
            name: name.into(),
            arguments: arguments.into(),
            complete: result.is_ok(),
        });
        result
    }

    /// An object with the name and the arguments of a call; adds the call.
    pub(super) fn call(&mut self, calls: &mut Vec<Call<'a>>) -> Read<()> {
        match self.value() {
            Ok(object) => {
                calls.push(call(object).ok_or(Stop::Not)?);
                Ok(())
            }
            Err((stop, _)) => {
                // The usual order shows the arguments before the object ends.
                self.begun(calls).ok();
                Err(stop)
            }
        }
    }

    /// Makes sure that the object that comes next has a first key that calls have; it stays.
    pub(super) fn call_key(&mut self) -> Read<()> {
        let before = self.at;
        let key = |reader: &mut Self| {
            reader.literal("{")?;
            reader.space();
            reader.literal("\"")?;
            let (key, _) = reader.until(&["\""])?;
            Ok([&NAME_KEYS[..], &ARGUMENT_KEYS, &OTHER_KEYS]
                .concat()
                .contains(&key))
        };
        let known = key(self);
        self.at = before;
        if known? { Ok(()) } else { Err(Stop::Not) }
    }

    /// An array of such objects; adds the calls.
    pub(super) fn calls(&mut self, calls: &mut Vec<Call<'a>>) -> Read<()> {
        self.literal("[")?;
        self.space();
        if self.peek()? == ']' {
            return Err(Stop::Not);
        }
        loop {
            self.call(calls)?;
            self.space();
            match self.peek()? {
                ',' => self.at += 1,
                ']' => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(Stop::Not),
            }
            self.space();
        }
    }

    /// The beginning of a call object whose name comes first and its arguments second.
    fn begun(&mut self, calls: &mut Vec<Call<'a>>) -> Read<()> {
        self.literal("{")?;
        self.space();
        self.literal("\"name\"")?;
        self.space();
        self.literal(":")?;
        self.space();
        self.literal("\"")?;
        let name = self.name()?;
        self.literal("\"")?;
        self.space();
        self.literal(",")?;
        self.space();
        let key = self.optional(|reader| reader.literal("\"arguments\""))?;
        if key.is_none() {
            self.literal("\"parameters\"")?;
        }
        self.space();
        self.literal(":")?;
        self.space();
        self.arguments(name, calls)?;
        if let Some(call) = calls.last_mut() {
            // Another key could still make the object something else.
            call.complete = false;
        }
        Ok(())
    }
}

/// Keys that models name the tool with.
const NAME_KEYS: [&str; 4] = ["name", "function", "tool", "tool_name"];
/// Keys that models put the arguments under.
const ARGUMENT_KEYS: [&str; 4] = ["arguments", "parameters", "args", "input"];

/// Keys that stand beside them.
const OTHER_KEYS: [&str; 3] = ["type", "id", "tool_calls"];

/// The call that a JSON object describes. The arguments keep the text they came in.
fn call(object: &str) -> Option<Call<'_>> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(object).ok()?;
    let field = |keys: &[&str]| keys.iter().find_map(|key| fields.get(*key).copied());
    let name = field(&NAME_KEYS)?.get();
    if name.starts_with('{') {
        return call(name);
    }
    let name: String = serde_json::from_str(name).ok()?;
    let arguments = match field(&ARGUMENT_KEYS).map(RawValue::get) {
        None | Some("null") => Cow::Borrowed("{}"),
        Some(object) if object.starts_with('{') => Cow::Borrowed(object),
        Some(text) => Cow::Owned(nested(text)?),
    };
    Some(Call {
        name: name.into(),
        arguments,
        complete: true,
    })
}

/// The object inside a string of JSON.
fn nested(text: &str) -> Option<String> {
    let text: String = serde_json::from_str(text).ok()?;
    if text.trim().is_empty() {
        return Some("{}".to_owned());
    }
    serde_json::from_str::<Value>(&text)
        .ok()?
        .is_object()
        .then_some(text)
}
