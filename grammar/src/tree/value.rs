//! Values: messages, lists, strings, numbers and words.

use std::ops::Range;

use super::Reader;
use super::stray::first_word;
use crate::ast::{Message, Number, StringPiece, StringValue, Value, ValueKind};
use crate::codes::syntax;
use crate::diag::Diagnostic;
use crate::literal;
use crate::span::Span;

impl Reader<'_> {
    /// Reads a value if one is next.
    pub(super) fn value(&mut self) -> Option<Value> {
        match self.cursor.peek()? {
            b'"' | b'\'' => self.string(),
            b'{' | b'<' => Some(self.message()),
            b'[' => Some(self.list()),
            _ => self.scalar(),
        }
    }

    fn message(&mut self) -> Value {
        let start = self.cursor.at;
        let mut message = Message::empty();
        self.cursor.at += 1;
        self.entries(&mut message);
        // Where the end of the file left the message open, its closing delimiter is beyond the text.
        let close = self.cursor.at;
        self.cursor.at = self.cursor.end_of_delimiter();
        message.span = self.span(start..self.cursor.at);
        message.delimiters = Some((
            self.span(start..start + 1),
            self.span(close..self.cursor.at),
        ));
        let span = message.span;
        Value::new(ValueKind::Message(message), span)
    }

    fn list(&mut self) -> Value {
        let start = self.cursor.at;
        self.cursor.at += 1;
        let values = self.elements();
        self.cursor.at = self.cursor.end_of_delimiter();
        Value::new(ValueKind::List(values), self.span(start..self.cursor.at))
    }

    /// Reads the values of a list up to its closing delimiter.
    fn elements(&mut self) -> Vec<Value> {
        let mut values = Vec::new();
        // The last comma without a value after it, and whether a value may come.
        let mut comma: Option<Span> = None;
        let mut free = true;
        let mut sound = true;
        loop {
            self.cursor.space();
            let is_list = self.cursor.peek() == Some(b'[');
            if let Some(value) = self.value() {
                if is_list {
                    self.bad_list(value.span, "list within a list", "a list holds no lists");
                    values.push(Value::new(ValueKind::Invalid, value.span));
                    (comma, free) = (None, false);
                    continue;
                }
                if !free && sound {
                    self.bad_list(
                        value.span,
                        "`,` is missing between two values of a list",
                        "expected `,` before this",
                    );
                }
                (comma, free) = (None, false);
                values.push(value);
            } else if let Some(range) = self.cursor.take(b',') {
                let span = self.span(range);
                if free && sound {
                    self.bad_list(span, "`,` without a value before it", "expected a value");
                }
                (comma, free, sound) = (Some(span), true, true);
            } else if let Some(range) = self.cursor.foreign_comment() {
                self.foreign_comment(range);
            } else if let Some(range) = self.cursor.junk() {
                let span = self.trimmed(range);
                if sound {
                    let shown = first_word(self.slice(span));
                    let place = self.part(span, 0..shown.len());
                    self.bad_list(
                        place,
                        &format!("unexpected `{shown}` in a list"),
                        "expected a value, `,` or `]`",
                    );
                }
                values.push(Value::new(ValueKind::Invalid, span));
                (comma, free, sound) = (None, true, false);
            } else {
                break;
            }
        }
        if let Some(comma) = comma.filter(|_| !values.is_empty() && sound) {
            self.bad_list(
                comma,
                "`,` after the last value of a list",
                "expected a value after this",
            );
        }
        values
    }

    fn bad_list(&mut self, span: Span, message: &str, label: &str) {
        self.report(Diagnostic::error(&syntax::BAD_LIST, span, message).label(label));
    }

    /// Reads adjacent string literals.
    fn string(&mut self) -> Option<Value> {
        let mut string = StringValue {
            bytes: Vec::new(),
            pieces: Vec::with_capacity(1),
        };
        let mut valid = true;
        let mut whole: Option<Span> = None;
        let mut end = self.cursor.at;
        while let Some(quoted) = self.cursor.quoted() {
            end = self.cursor.at;
            let span = if quoted.closed {
                self.span(quoted.range)
            } else {
                self.trimmed(quoted.range)
            };
            whole = Some(whole.map_or(span, |whole| whole.to(span)));
            if quoted.closed {
                valid &= self.piece(span, &mut string);
            } else {
                valid = false;
                self.unterminated(span);
            }
            self.cursor.space();
        }
        self.cursor.at = end;
        let kind = if valid {
            ValueKind::String(string)
        } else {
            ValueKind::Invalid
        };
        whole.map(|span| Value::new(kind, span))
    }

    /// Adds one string literal; false if it has escapes that are none, which are reported.
    fn piece(&mut self, span: Span, string: &mut StringValue) -> bool {
        let written = self.slice(span);
        let start = string.bytes.len();
        match literal::unescape(&written[1..written.len() - 1], &mut string.bytes) {
            Ok(mut offsets) => {
                for offset in &mut offsets {
                    *offset += span.start + 1;
                }
                string.pieces.push(StringPiece {
                    span,
                    start,
                    offsets,
                });
                true
            }
            Err(errors) => {
                for error in errors {
                    let place = self.part(span, error.range.start + 1..error.range.end + 1);
                    self.report(
                        Diagnostic::error(
                            &syntax::BAD_ESCAPE,
                            place,
                            "invalid escape sequence in a string",
                        )
                        .label(error.why)
                        .fix(
                            "write a backslash itself as `\\\\`",
                            place.at_start(),
                            "\\",
                        ),
                    );
                }
                false
            }
        }
    }

    fn unterminated(&mut self, span: Span) {
        let quote = &self.slice(span)[..1];
        self.report(
            Diagnostic::error(
                &syntax::UNTERMINATED_STRING,
                span,
                "the string does not end on its line",
            )
            .label(format!("no closing `{quote}`"))
            .hint(format!(
                "a string ends on the line it begins on, with the quote it began with: `{quote}`"
            )),
        );
    }

    /// Reads a number or word with its sign.
    fn scalar(&mut self) -> Option<Value> {
        let start = self.cursor.at;
        let negative = self.cursor.take(b'-').is_some();
        if let Some(digits) = self.cursor.digits() {
            return Some(self.number(negative, start, digits));
        }
        let word = self.cursor.identifier().and_then(|word| {
            self.cursor.space();
            // A word before one of these is the next field's name and no value.
            (!matches!(self.cursor.peek(), Some(b':' | b'{' | b'<'))).then_some(word)
        });
        let Some(word) = word else {
            self.cursor.at = start;
            return None;
        };
        let name = self.cursor.slice(word.clone()).to_owned();
        let span = self.span(start..word.end);
        Some(Value::new(ValueKind::Identifier { negative, name }, span))
    }

    fn number(&mut self, negative: bool, start: usize, digits: Range<usize>) -> Value {
        let span = self.span(start..digits.end);
        let written = self.cursor.slice(digits.clone());
        let kind = match literal::number(written) {
            Ok(literal) => ValueKind::Number(Number { negative, literal }),
            Err(error) => {
                let place = self.part(self.span(digits), error.range);
                let message = format!("`{written}` is no number");
                self.report(
                    Diagnostic::error(&syntax::BAD_NUMBER, place, message).label(error.why),
                );
                ValueKind::Invalid
            }
        };
        Value::new(kind, span)
    }
}
