//! Escapes and numbers: their values, or the reason why they are invalid.

use std::ops::Range;

use pest::iterators::Pair;

use crate::ast::{Literal, Radix};
use crate::text_format::Rule;

/// Resolves an escape sequence, valid or not, and appends its bytes.
pub(crate) fn unescape(written: &str, bytes: &mut Vec<u8>) -> Result<(), String> {
    let kind = written[1..].chars().next().unwrap_or('\\');
    let hexadecimal = |digits: &str| u32::from_str_radix(digits, 16).ok();
    let byte = match kind {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        '?' | '\\' | '\'' | '"' => kind as u8,
        '0'..='7' => u8::from_str_radix(&written[1..], 8)
            .map_err(|_| "an octal escape is at most `\\377`")?,
        'x' | 'X' => u8::from_str_radix(&written[2..], 16)
            .map_err(|_| format!("`\\{kind}` must be followed by hexadecimal digits"))?,
        'u' | 'U' => {
            let (digits, low) = match written[2..].split_once('\\') {
                Some((digits, low)) => (digits, hexadecimal(&low[1..])),
                None => (&written[2..], None),
            };
            let length = if kind == 'u' { 4 } else { 8 };
            if digits.len() < length {
                return Err(format!(
                    "`\\{kind}` must be followed by {length} hexadecimal digits"
                ));
            }
            // The two halves of a surrogate pair are two escapes.
            let number = match (hexadecimal(digits), low) {
                (Some(high), Some(low)) => {
                    Some(0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00))
                }
                (number, _) => number,
            };
            let character = number.and_then(char::from_u32);
            let character = character.ok_or("no character has this number")?;
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            return Ok(());
        }
        _ => return Err(format!("`\\{kind}` is not an escape sequence")),
    };
    bytes.push(byte);
    Ok(())
}

/// A mistake in a number: the range of its bytes and the reason.
pub(crate) type BadNumber = (Range<usize>, String);

/// Reads a number without its sign.
pub(crate) fn number(pair: Pair<'_, Rule>) -> Result<Literal, BadNumber> {
    let text = pair.as_str();
    let integer = |digits: &str, radix: Radix, base: u32| match u64::from_str_radix(digits, base) {
        Ok(value) => Ok(Literal::Integer { radix, value }),
        Err(_) => Err((0..text.len(), "more than 64 bits".to_owned())),
    };
    let float = |digits: &str| digits.parse().unwrap_or(f64::NAN);
    match pair.as_rule() {
        Rule::hexadecimal => integer(&text[2..], Radix::Hexadecimal, 16),
        Rule::octal => integer(text, Radix::Octal, 8),
        Rule::decimal => {
            integer(text, Radix::Decimal, 10).or_else(|_| Ok(Literal::HugeInteger(float(text))))
        }
        Rule::float => Ok(Literal::Float(float(text.trim_end_matches(['f', 'F'])))),
        _ => Err(why_no_number(pair)),
    }
}

/// Finds the mistake in a [`Rule::glued_number`].
fn why_no_number(pair: Pair<'_, Rule>) -> BadNumber {
    let text = pair.as_str();
    let start = pair.into_inner().next().map_or("", |start| start.as_str());
    let at = start.len();
    let is_digit = |byte: u8| byte.is_ascii_digit();
    let is_octal = at > 1 && start.starts_with('0') && start.bytes().all(is_digit);
    let is_whole = is_octal || start.starts_with("0x") || start.starts_with("0X");
    let has_exponent = !start.bytes().all(|byte| is_digit(byte) || byte == b'.');
    match &text.as_bytes()[at..] {
        [] => {
            let at = start.bytes().position(|byte| byte > b'7').unwrap_or(0);
            let why = "a number with a leading zero is octal: its digits are 0 to 7";
            (at..at + 1, why.to_owned())
        }
        [b'x' | b'X', ..] if start == "0" => {
            let why = "`0x` must be followed by hexadecimal digits";
            (0..2, why.to_owned())
        }
        [b'.', ..] if !is_whole => {
            let why = "a number has one decimal point, before the exponent";
            (at..at + 1, why.to_owned())
        }
        [e @ (b'e' | b'E'), rest @ ..] if !is_whole && !has_exponent => {
            let sign = usize::from(matches!(rest, [b'+' | b'-', ..]));
            let why = format!("`{}` must be followed by an exponent", char::from(*e));
            (at..at + 1 + sign, why)
        }
        _ => {
            let glued = &text[at..];
            let why = format!("a space is missing between `{start}` and `{glued}`");
            (at..text.len(), why)
        }
    }
}
