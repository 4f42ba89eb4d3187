//! Strings and numbers: from what is written to what it means.

use std::ops::Range;

use crate::ast::{Literal, Radix};

/// What is wrong with a literal, and where in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadLiteral {
    /// Bytes of the literal.
    pub(crate) range: Range<usize>,
    /// What is wrong with them.
    pub(crate) why: String,
}

fn bad<T>(range: Range<usize>, why: impl Into<String>) -> Result<T, BadLiteral> {
    Err(BadLiteral {
        range,
        why: why.into(),
    })
}

/// Resolves the escapes of `content`, the inside of a string literal, and appends its bytes to `bytes`.
///
/// Gives where in `content` each appended byte begins; nothing for a string without escapes, whose bytes are its text.
pub(crate) fn unescape(content: &str, bytes: &mut Vec<u8>) -> Result<Vec<u32>, Vec<BadLiteral>> {
    if !content.contains('\\') {
        bytes.extend_from_slice(content.as_bytes());
        return Ok(Vec::new());
    }
    let mut offsets = Vec::with_capacity(content.len());
    let mut errors = Vec::new();
    let mut at = 0;
    while at < content.len() {
        let plain = content[at..].find('\\').unwrap_or(content.len() - at);
        bytes.extend_from_slice(&content.as_bytes()[at..at + plain]);
        offsets.extend((at..at + plain).map(|offset| offset as u32));
        at += plain;
        if at == content.len() {
            break;
        }
        let before = bytes.len();
        match escape(content, at, bytes) {
            Ok(end) => {
                offsets.extend(std::iter::repeat_n(at as u32, bytes.len() - before));
                at = end;
            }
            Err(error) => {
                at = error.range.end;
                errors.push(error);
            }
        }
    }
    if errors.is_empty() {
        Ok(offsets)
    } else {
        Err(errors)
    }
}

/// Resolves the escape whose backslash is at `at` and gives where it ends.
fn escape(content: &str, at: usize, bytes: &mut Vec<u8>) -> Result<usize, BadLiteral> {
    let after = &content[at + 1..];
    let Some(kind) = after.chars().next() else {
        return bad(at..at + 1, "nothing follows the backslash");
    };
    let simple = match kind {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        '?' | '\\' | '\'' | '"' => kind as u8,
        '0'..='7' => return octal(after, at, bytes),
        'x' | 'X' => {
            let digits = digits(&after[1..], 2, 16);
            let Ok(value) = u8::from_str_radix(digits, 16) else {
                return bad(
                    at..at + 2,
                    format!("`\\{kind}` must be followed by hexadecimal digits"),
                );
            };
            bytes.push(value);
            return Ok(at + 2 + digits.len());
        }
        'u' => return unicode(after, at, 4, bytes),
        'U' => return unicode(after, at, 8, bytes),
        _ => {
            return bad(
                at..at + 1 + kind.len_utf8(),
                format!("`\\{kind}` is no escape sequence"),
            );
        }
    };
    bytes.push(simple);
    Ok(at + 2)
}

fn octal(after: &str, at: usize, bytes: &mut Vec<u8>) -> Result<usize, BadLiteral> {
    let digits = digits(after, 3, 8);
    match u8::from_str_radix(digits, 8) {
        Ok(value) => {
            bytes.push(value);
            Ok(at + 1 + digits.len())
        }
        Err(_) => bad(
            at..at + 1 + digits.len(),
            "an octal escape is at most `\\377`",
        ),
    }
}

fn unicode(
    after: &str,
    at: usize,
    length: usize,
    bytes: &mut Vec<u8>,
) -> Result<usize, BadLiteral> {
    let digits = digits(&after[1..], length, 16);
    let end = at + 2 + digits.len();
    if digits.len() < length {
        return bad(
            at..end,
            format!(
                "`\\{}` must be followed by {length} hexadecimal digits",
                &after[..1]
            ),
        );
    }
    let value = u32::from_str_radix(digits, 16).ok();
    // The two halves of a surrogate pair are written as two escapes.
    let character = value.and_then(|high| {
        let low = low_surrogate(&after[1 + length..], high)?;
        char::from_u32(0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00))
    });
    if let Some(character) = character {
        bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        return Ok(end + 6);
    }
    match value.and_then(char::from_u32) {
        Some(character) => {
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            Ok(end)
        }
        None => bad(at..end, "no character has this number"),
    }
}

/// The low surrogate that is written as `\uXXXX` at the start of `rest`, if `high` is a high one.
fn low_surrogate(rest: &str, high: u32) -> Option<u32> {
    if !(0xD800..0xDC00).contains(&high) {
        return None;
    }
    let low = u32::from_str_radix(digits(rest.strip_prefix("\\u")?, 4, 16), 16).ok()?;
    (0xDC00..0xE000).contains(&low).then_some(low)
}

/// The digits at the start of `text`, at most `length`.
fn digits(text: &str, length: usize, radix: u32) -> &str {
    let end = text
        .char_indices()
        .take(length)
        .find(|(_, c)| !c.is_digit(radix))
        .map_or_else(
            || {
                text.char_indices()
                    .nth(length)
                    .map_or(text.len(), |(i, _)| i)
            },
            |(i, _)| i,
        );
    &text[..end]
}

/// Reads a number without its sign.
pub(crate) fn number(text: &str) -> Result<Literal, BadLiteral> {
    let bytes = text.as_bytes();
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return hexadecimal(hex, text);
    }
    let is_octal = bytes[0] == b'0' && bytes.get(1).is_some_and(u8::is_ascii_digit);
    let is_float = !is_octal
        && bytes
            .iter()
            .any(|byte| matches!(byte, b'.' | b'e' | b'E' | b'f' | b'F'));
    if !is_float {
        return integer(text);
    }
    let mut at = 0;
    let skip_digits = |at: usize| {
        at + bytes[at..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count()
    };
    at = skip_digits(at);
    if bytes.get(at) == Some(&b'.') {
        at = skip_digits(at + 1);
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let end = skip_digits(at + 1 + sign);
        if end == at + 1 + sign {
            return bad(
                at..at + 1 + sign,
                format!(
                    "`{}` must be followed by an exponent",
                    char::from(bytes[at])
                ),
            );
        }
        at = end;
    }
    let value = at;
    if matches!(bytes.get(at), Some(b'f' | b'F')) {
        at += 1;
    }
    match bytes.get(at) {
        None => {}
        Some(b'.') => {
            return bad(
                at..at + 1,
                "a number has one decimal point, before the exponent",
            );
        }
        Some(_) => return glued(text, at),
    }
    match text[..value].parse() {
        Ok(value) => Ok(Literal::Float(value)),
        Err(_) => bad(0..text.len(), "no number"),
    }
}

fn hexadecimal(digits: &str, text: &str) -> Result<Literal, BadLiteral> {
    if let Some(at) = digits.bytes().position(|byte| !byte.is_ascii_hexdigit()) {
        return if at == 0 {
            bad(0..2, "`0x` must be followed by hexadecimal digits")
        } else {
            glued(text, 2 + at)
        };
    }
    if digits.is_empty() {
        return bad(0..2, "`0x` must be followed by hexadecimal digits");
    }
    match u64::from_str_radix(digits, 16) {
        Ok(value) => Ok(Literal::Integer {
            radix: Radix::Hexadecimal,
            value,
        }),
        Err(_) => bad(0..text.len(), "more than 64 bits"),
    }
}

fn integer(text: &str) -> Result<Literal, BadLiteral> {
    if let Some(at) = text.bytes().position(|byte| !byte.is_ascii_digit()) {
        return glued(text, at);
    }
    if text.len() > 1 && text.starts_with('0') {
        if let Some(at) = text.bytes().position(|byte| byte > b'7') {
            return bad(
                at..at + 1,
                "a number with a leading zero is octal: its digits are 0 to 7",
            );
        }
        return match u64::from_str_radix(text, 8) {
            Ok(value) => Ok(Literal::Integer {
                radix: Radix::Octal,
                value,
            }),
            Err(_) => bad(0..text.len(), "more than 64 bits"),
        };
    }
    if let Ok(value) = text.parse() {
        return Ok(Literal::Integer {
            radix: Radix::Decimal,
            value,
        });
    }
    match text.parse() {
        Ok(value) => Ok(Literal::HugeInteger(value)),
        Err(_) => bad(0..text.len(), "no number"),
    }
}

fn glued(text: &str, at: usize) -> Result<Literal, BadLiteral> {
    let (number, rest) = text.split_at(at);
    bad(
        at..text.len(),
        format!("a space is missing between `{number}` and `{rest}`"),
    )
}
