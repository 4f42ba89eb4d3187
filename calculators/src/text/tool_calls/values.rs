//! Values of arguments that are not JSON: literals of Python and of Gemma.

use std::fmt::Write as _;

use serde_json::{Number, Value};

use super::read::{Step, Stop};
use super::scan::is_json;

/// The syntax of literals: their quotes and escapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    Python,
    Gemma,
}

/// Quote before and after a text of Gemma, which has no escapes.
pub(super) const GEMMA_QUOTE: &str = "<|\"|>";

impl Syntax {
    /// Iterates over the quotes. Of those that begin alike, the longest comes first.
    fn quotes(self) -> impl Iterator<Item = &'static str> {
        let quotes: &[&str] = match self {
            Self::Python => &["\"\"\"", "'''", "\"", "'"],
            Self::Gemma => &[GEMMA_QUOTE],
        };
        quotes.iter().copied()
    }

    /// Returns the quote with which a text begins, or may begin when more text comes.
    fn quote(self, text: &str) -> Option<&'static str> {
        let mut quotes = self.quotes();
        quotes.find(|quote| text.starts_with(quote) || quote.starts_with(text))
    }
}

/// A search for the end of a value, which continues where it stopped.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    at: usize,
    depth: usize,
    quote: Option<&'static str>,
}

impl Ends {
    pub(super) fn new(at: usize) -> Self {
        Self {
            at,
            depth: 0,
            quote: None,
        }
    }

    /// Returns the position at which the value ends: before a comma, or before the end of its
    /// container.
    pub(super) fn advance(&mut self, text: &str, syntax: Syntax) -> Step<usize> {
        while let Some(c) = text[self.at..].chars().next() {
            let rest = &text[self.at..];
            let escapes = syntax == Syntax::Python;
            let mark = self.quote.or_else(|| syntax.quote(rest));
            self.at += match mark {
                Some(mark) if rest.starts_with(mark) => {
                    self.quote = self.quote.is_none().then_some(mark);
                    mark.len()
                }
                Some(mark) if mark.starts_with(rest) => return Err(Stop::More),
                Some(_) if c == '\\' && escapes => {
                    1 + rest.chars().nth(1).ok_or(Stop::More)?.len_utf8()
                }
                Some(_) => c.len_utf8(),
                None => {
                    match c {
                        ',' | ')' | ']' | '}' if self.depth == 0 => return Ok(self.at),
                        '(' | '[' | '{' => self.depth += 1,
                        ')' | ']' | '}' => self.depth -= 1,
                        _ => {}
                    }
                    c.len_utf8()
                }
            };
        }
        Err(Stop::More)
    }
}

/// Converts a whole text to the JSON of its value. Numbers keep their digits.
pub(super) fn json(text: &str, syntax: Syntax) -> Option<String> {
    let (mut rest, mut json) = (text, String::new());
    while let Some(c) = rest.chars().next() {
        if let Some(quote) = syntax.quotes().find(|quote| rest.starts_with(quote)) {
            let (text, after) = quoted(rest, quote, syntax)?;
            write!(json, "{}", Value::from(text)).ok()?;
            rest = after;
            continue;
        }
        if c.is_whitespace() {
            rest = rest.trim_start();
            continue;
        }
        let ends = rest.find([',', ':', '(', ')', '[', ']', '{', '}']);
        let length = match ends.unwrap_or(rest.len()) {
            0 => {
                let is_end = matches!(c, ')' | ']' | '}');
                if is_end && json.trim_end().ends_with(',') {
                    json.truncate(json.trim_end().len() - 1);
                }
                json.push(match c {
                    '(' => '[',
                    ')' => ']',
                    other => other,
                });
                1
            }
            length => {
                json.push_str(&word(rest[..length].trim(), syntax)?);
                length
            }
        };
        rest = &rest[length..];
    }
    is_json(&json).then_some(json)
}

/// Converts a number or a name to JSON.
fn word(word: &str, syntax: Syntax) -> Option<String> {
    let digits = word.replace('_', "");
    Some(match word {
        "" => String::new(),
        "True" => "true".to_owned(),
        "False" => "false".to_owned(),
        "None" => "null".to_owned(),
        json if is_json(json) => json.to_owned(),
        // The text is a key, or a text without its quotes.
        text if syntax == Syntax::Gemma => Value::from(text).to_string(),
        _ if is_json(&digits) => digits,
        _ => Number::from_f64(digits.parse().ok()?)?.to_string(),
    })
}

/// Returns the text between quotes, and the rest after it.
fn quoted<'a>(rest: &'a str, quote: &str, syntax: Syntax) -> Option<(String, &'a str)> {
    let body = &rest[quote.len()..];
    let (mut at, mut text) = (0, String::new());
    while !body[at..].starts_with(quote) {
        let c = body[at..].chars().next()?;
        at += c.len_utf8();
        if c == '\\' && syntax == Syntax::Python {
            at += unescaped(&body[at..], &mut text)?;
        } else {
            text.push(c);
        }
    }
    let (whole, behind) = rest.split_at(at + 2 * quote.len());
    // Models also write JSON's escapes, such as surrogate pairs.
    Some((serde_json::from_str(whole).unwrap_or(text), behind))
}

/// Adds the character of an escape, and returns the escape's length after the backslash.
fn unescaped(escape: &str, text: &mut String) -> Option<usize> {
    let kind = escape.chars().next()?;
    let digits = match kind {
        'x' => 2,
        'u' => 4,
        'U' => 8,
        _ => 0,
    };
    let code = escape.get(1..=digits).filter(|_| digits > 0);
    if let Some(code) = code.and_then(|code| u32::from_str_radix(code, 16).ok()) {
        text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        return Some(1 + digits);
    }
    match kind {
        'n' => text.push('\n'),
        't' => text.push('\t'),
        'r' => text.push('\r'),
        '\n' => {}
        '\\' | '\'' | '"' => text.push(kind),
        other => text.extend(['\\', other]),
    }
    Some(kind.len_utf8())
}
