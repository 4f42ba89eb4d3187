//! Arguments of tool calls, which models write and clients send back. They may be cut off or
//! invalid JSON.

use graphmill_dialects::json::{Allowance, INVALID_JSON};
use serde_json::{Map, Value};

/// Parses the arguments of a past call for templates: to an object, or to the text if it is not
/// one. `path` is its place in the request.
pub(super) fn parse(text: String, path: &str, allowance: &Allowance) -> Value {
    if text.trim().is_empty() {
        return Map::new().into();
    }
    let read = |text: &str| allowance.parse(text.as_bytes(), path);
    let mut object = read(&text);
    // Arguments with too many values are not parsed a second time.
    if let Err(error) = &object
        && error.code.as_deref() == Some(INVALID_JSON)
        && let Some(readable) = readable(&text)
    {
        object = read(&readable);
    }
    match object {
        Ok(object @ Value::Object(_)) => object,
        Ok(Value::Null) => Map::new().into(),
        _ => text.into(),
    }
}

/// Parses the object that a model wrote. Text that is not an object gives an empty one.
pub(super) fn object(text: &str) -> Map<String, Value> {
    let parsed = |text: &str| serde_json::from_str(text).ok();
    let object = parsed(text).or_else(|| parsed(&readable(text)?));
    object.unwrap_or_default()
}

/// Replaces JSON that most parsers refuse: halves of surrogate pairs, and numbers that are too
/// large. Returns `None` if there are none.
fn readable(text: &str) -> Option<String> {
    let mut readable = String::with_capacity(text.len());
    pass(text, &mut false, true, &mut readable);
    (readable != text).then_some(readable)
}

/// A filter for JSON in pieces, which replaces what most parsers refuse.
#[derive(Debug, Default)]
pub(super) struct Readable {
    /// Incomplete escape or number at the end of the text so far.
    held: String,
    /// True if the text before that ends within a string.
    in_string: bool,
}

impl Readable {
    /// Adds a piece, and returns the text that can be passed on.
    pub(super) fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let mut passed = String::with_capacity(self.held.len());
        let left = pass(&self.held, &mut self.in_string, false, &mut passed).len();
        self.held.drain(..self.held.len() - left);
        passed
    }

    /// Ends the text: returns the rest, and starts anew.
    pub(super) fn end(&mut self) -> String {
        let mut ended = std::mem::take(self);
        let mut passed = String::new();
        pass(&ended.held, &mut ended.in_string, true, &mut passed);
        passed
    }
}

/// Passes on the text that does not depend on what follows, and returns the rest.
fn pass<'a>(text: &'a str, in_string: &mut bool, has_ended: bool, passed: &mut String) -> &'a str {
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let read = match c {
            '\\' if *in_string => escape(rest, has_ended),
            '-' | '0'..='9' if !*in_string => number(rest, has_ended),
            _ => Some((c.len_utf8(), None)),
        };
        let Some((length, instead)) = read else { break };
        *in_string ^= c == '"';
        passed.push_str(instead.unwrap_or(&rest[..length]));
        rest = &rest[length..];
    }
    rest
}

/// The length of the text that was read, and its replacement if there is one.
type ScannedText = (usize, Option<&'static str>);

/// Reads an escape. The text may end inside of it.
fn escape(text: &str, has_ended: bool) -> Option<ScannedText> {
    let unit = |at: usize| {
        let digits = text.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let wanted = match unit(0) {
        Some(0xD800..=0xDBFF) => 12,
        None if text.starts_with("\\u") => 6,
        _ => 2,
    };
    if text.len() < wanted && !has_ended {
        return None;
    }
    Some(match (unit(0), unit(6)) {
        (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => (12, None),
        (Some(0xD800..=0xDFFF), _) => (6, Some("\\ufffd")),
        _ => (1 + text[1..].chars().next().map_or(0, char::len_utf8), None),
    })
}

/// Reads a number. The text may end inside of it.
fn number(text: &str, has_ended: bool) -> Option<ScannedText> {
    let end = text.find(|c: char| !c.is_ascii_digit() && !"+-.eE".contains(c));
    let length = end.or(has_ended.then_some(text.len()))?;
    let instead = match text[..length].parse() {
        Ok(f64::INFINITY) => Some("1.7976931348623157e308"),
        Ok(f64::NEG_INFINITY) => Some("-1.7976931348623157e308"),
        _ => None,
    };
    Some((length, instead))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_no_reader_takes_is_replaced() {
        for (text, expected) in [
            (r#"{"a": "\ud83d"}"#, json!({ "a": "\u{fffd}" })),
            (
                r#"{"a": "\ude00x\ud83d\ude00"}"#,
                json!({ "a": "\u{fffd}x😀" }),
            ),
            (r#"{"a": "\\ud83d"}"#, json!({ "a": "\\ud83d" })),
            (
                r#"{"a": [1e400, -2E+999, "1e400"]}"#,
                json!({ "a": [f64::MAX, f64::MIN, "1e400"] }),
            ),
            (r#"{"\ud83dé": 1e400}"#, json!({ "\u{fffd}é": f64::MAX })),
            ("", json!({})),
            ("null", json!({})),
        ] {
            let read = parse(text.to_owned(), "arguments", &Allowance::default());
            assert_eq!(read, expected, "{text}");
            assert_eq!(Value::Object(object(text)), expected, "{text}");
        }
        for text in [
            "{\"a\": \"b",
            "[1]",
            "\"x\"",
            "{'q': 'a'}",
            "\\",
            "\"\\u12",
            "\\é",
            "1e400",
        ] {
            let read = parse(text.to_owned(), "arguments", &Allowance::default());
            assert_eq!(read, json!(text));
            assert_eq!(object(text), Map::new(), "{text}");
        }
    }

    #[test]
    fn a_text_is_the_same_wherever_it_is_cut() {
        let text = r#"{"a": "\ud83d\ude00 \ud83d é \\u \"\ude00", "b": [1e400, -12]}"#;
        let expected =
            r#"{"a": "\ud83d\ude00 \ufffd é \\u \"\ufffd", "b": [1.7976931348623157e308, -12]}"#;
        for (at, _) in text.char_indices() {
            for (end, _) in text.char_indices().skip_while(|(end, _)| *end < at) {
                let mut whole = Readable::default();
                let pieces = [&text[..at], &text[at..end], &text[end..]];
                let mut passed: String = pieces.map(|piece| whole.push(piece)).concat();
                passed += &whole.end();
                assert_eq!(passed, expected);
            }
        }
    }
}
