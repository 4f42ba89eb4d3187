//! A scan for the end of a JSON object or array that comes in pieces.

use serde::de::IgnoredAny;

/// Maximum depth of nesting, as in `serde_json`.
const MAX_DEPTH: usize = 127;

/// The result of a scan after the text so far.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum ScanResult {
    /// The text is a beginning of a value.
    More,
    /// The value ends before this byte.
    Ends(usize),
    /// No JSON object or array continues with this byte.
    Not(usize),
}

/// Returns true if a text is a JSON value. Its numbers may be larger than any type of numbers.
pub(super) fn is_json(text: &str) -> bool {
    let text = text.trim();
    if text.starts_with(['{', '[']) {
        Scan::new(0).advance(text) == ScanResult::Ends(text.len())
    } else {
        serde_json::from_str::<IgnoredAny>(text).is_ok()
    }
}

/// A scan of one JSON object or array, byte by byte, which continues where it stopped.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    /// Number of bytes of the text that were read.
    at: usize,
    /// Bytes that close the open objects and arrays.
    open: Vec<u8>,
    next: NextPart,
    result: ScanResult,
}

/// The part of the JSON grammar that is allowed next.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum NextPart {
    Value,
    /// First value of an array, or its end.
    FirstValue,
    /// First key of an object, or its end.
    FirstKey,
    Key,
    Colon,
    /// Comma, or the container's end.
    AfterValue,
    /// More of a string. After a `key` a colon follows.
    Text {
        key: bool,
        escape: Escape,
    },
    Number(NumberPart),
    /// Rest of `true`, `false` or `null`.
    Word(&'static [u8]),
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Escape {
    None,
    Begun,
    /// The number of hexadecimal digits that must follow.
    Hex(u8),
}

/// The part of a number that was read last.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum NumberPart {
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    E,
    ExponentSign,
    Exponent,
}

impl Scan {
    /// Creates a scan of the value that begins at `start` of a text.
    pub(super) fn new(start: usize) -> Self {
        Self {
            at: start,
            open: Vec::new(),
            next: NextPart::Value,
            result: ScanResult::More,
        }
    }

    /// Continues in the text, which begins with every text given before.
    pub(super) fn advance(&mut self, text: &str) -> ScanResult {
        let text = text.as_bytes();
        while self.result == ScanResult::More && self.at < text.len() {
            let byte = text[self.at];
            if self.open.is_empty() && !matches!(byte, b'{' | b'[') {
                self.result = ScanResult::Not(self.at);
                break;
            }
            let taken = self.step(byte);
            match taken {
                None => self.result = ScanResult::Not(self.at),
                Some(taken) => self.at += usize::from(taken),
            }
            if taken == Some(true) && self.open.is_empty() {
                self.result = ScanResult::Ends(self.at);
            }
        }
        self.result
    }

    /// Reads a byte. Returns false if the byte ended a number and must be read again; `None` if it
    /// is not allowed here.
    fn step(&mut self, byte: u8) -> Option<bool> {
        let space = matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.next = match self.next {
            NextPart::Text { key, escape } => text(key, escape, byte)?,
            NextPart::Number(number) => match self::number(number, byte) {
                Some(number) => NextPart::Number(number),
                None if number.is_whole() => {
                    self.next = NextPart::AfterValue;
                    return Some(false);
                }
                None => return None,
            },
            NextPart::Word([first, rest @ ..]) if *first == byte => match rest {
                [] => NextPart::AfterValue,
                rest => NextPart::Word(rest),
            },
            NextPart::Word(_) => return None,
            same if space => same,
            NextPart::FirstValue if byte == b']' => return self.close(byte),
            NextPart::FirstKey if byte == b'}' => return self.close(byte),
            NextPart::Value | NextPart::FirstValue => return self.value(byte),
            NextPart::FirstKey | NextPart::Key if byte == b'"' => NextPart::Text {
                key: true,
                escape: Escape::None,
            },
            NextPart::Colon if byte == b':' => NextPart::Value,
            NextPart::AfterValue => match (byte, self.open.last()?) {
                (b',', b'}') => NextPart::Key,
                (b',', _) => NextPart::Value,
                (b'}' | b']', _) => return self.close(byte),
                _ => return None,
            },
            NextPart::FirstKey | NextPart::Key | NextPart::Colon => return None,
        };
        Some(true)
    }

    fn value(&mut self, byte: u8) -> Option<bool> {
        self.next = match byte {
            b'{' => self.open(b'}', NextPart::FirstKey)?,
            b'[' => self.open(b']', NextPart::FirstValue)?,
            b'"' => NextPart::Text {
                key: false,
                escape: Escape::None,
            },
            b't' => NextPart::Word(b"rue"),
            b'f' => NextPart::Word(b"alse"),
            b'n' => NextPart::Word(b"ull"),
            b'-' => NextPart::Number(NumberPart::Minus),
            b'0' => NextPart::Number(NumberPart::Zero),
            b'1'..=b'9' => NextPart::Number(NumberPart::Integer),
            _ => return None,
        };
        Some(true)
    }

    fn open(&mut self, close: u8, first: NextPart) -> Option<NextPart> {
        self.open.push(close);
        (self.open.len() <= MAX_DEPTH).then_some(first)
    }

    fn close(&mut self, byte: u8) -> Option<bool> {
        self.next = NextPart::AfterValue;
        (self.open.pop()? == byte).then_some(true)
    }
}

fn text(key: bool, escape: Escape, byte: u8) -> Option<NextPart> {
    let escape = match (escape, byte) {
        (Escape::None, b'"') if key => return Some(NextPart::Colon),
        (Escape::None, b'"') => return Some(NextPart::AfterValue),
        (Escape::None, b'\\') => Escape::Begun,
        (Escape::None, 0..0x20) => return None,
        (Escape::Begun, b'u') => Escape::Hex(4),
        (Escape::None, _)
        | (Escape::Begun, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Escape::None,
        (Escape::Hex(left), byte) if byte.is_ascii_hexdigit() => match left {
            1 => Escape::None,
            left => Escape::Hex(left - 1),
        },
        _ => return None,
    };
    Some(NextPart::Text { key, escape })
}

fn number(number: NumberPart, byte: u8) -> Option<NumberPart> {
    use NumberPart::{E, Exponent, ExponentSign, Fraction, Integer, Minus, Point, Zero};
    Some(match (number, byte) {
        (Minus, b'0') => Zero,
        (Minus, b'1'..=b'9') | (Integer, b'0'..=b'9') => Integer,
        (Zero | Integer, b'.') => Point,
        (Point | Fraction, b'0'..=b'9') => Fraction,
        (Zero | Integer | Fraction, b'e' | b'E') => E,
        (E, b'+' | b'-') => ExponentSign,
        (E | ExponentSign | Exponent, b'0'..=b'9') => Exponent,
        _ => return None,
    })
}

impl NumberPart {
    fn is_whole(self) -> bool {
        matches!(
            self,
            Self::Zero | Self::Integer | Self::Fraction | Self::Exponent
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::{MAX_DEPTH, Scan, ScanResult};

    /// What a scan finds that sees one character more each time.
    fn scan(text: &str) -> ScanResult {
        let mut one = Scan::new(0);
        let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
        let mut results = ends.map(|end| one.advance(&text[..end]));
        let found = results.find(|result| *result != ScanResult::More);
        let whole = Scan::new(0).advance(text);
        assert_eq!(found.unwrap_or(ScanResult::More), whole, "{text}");
        whole
    }

    #[test]
    fn the_end_of_a_value_is_found_where_it_comes() {
        let value = r#"{"a": [1, -0.5e+3, "}\"\u00e9", {}, []], "b" : null}"#;
        assert_eq!(
            scan(&format!("{value} tail")),
            ScanResult::Ends(value.len())
        );
        for cut in 0..value.len() {
            assert_eq!(scan(&value[..cut]), ScanResult::More, "{cut}");
        }
    }

    #[test]
    fn what_cannot_become_json_is_known_at_once() {
        for text in [
            "x",
            "1",
            "\"a\"",
            "{a",
            "{\"a\"}",
            "{\"a\" 1",
            "[1,]",
            "{\"a\":1,}",
            "[01",
            "[1.]",
            "[-]",
            "[1e]",
            "[tru ",
            "{\"a\n",
            "[\"\\x",
            "[\"\\u12g",
            "{]",
            "[}",
            "[1}",
            "{\"a\":1]",
            "[,",
            "[1 2",
        ] {
            assert!(matches!(scan(text), ScanResult::Not(_)), "{text}");
        }
        assert_eq!(scan(&"[".repeat(200)), ScanResult::Not(MAX_DEPTH));
    }

    #[test]
    fn a_number_may_be_larger_than_a_float_holds() {
        let value = r#"{"a": [1e511, -1e5999]}"#;
        assert_eq!(scan(value), ScanResult::Ends(value.len()));
    }

    proptest! {
        // The grammar alone decides, so the values are not read as numbers, which have a range.
        #[test]
        fn a_value_ends_where_serde_json_says(text in r#"[\[{]([\[\]{}:, ]|"a"|"\\\\"|\\|1|-0|0.5|1e5|true|null|é){0,20}"#) {
            let mut values = serde_json::Deserializer::from_str(&text).into_iter::<Box<RawValue>>();
            let parsed = values.next().expect("not empty");
            let expected = match parsed {
                Ok(_) => ScanResult::Ends(values.byte_offset()),
                Err(error) if error.is_eof() => ScanResult::More,
                Err(_) => {
                    prop_assert!(matches!(scan(&text), ScanResult::Not(_)));
                    return Ok(());
                }
            };
            prop_assert_eq!(scan(&text), expected);
        }
    }
}
