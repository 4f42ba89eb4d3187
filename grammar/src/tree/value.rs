//! Values: messages, lists, strings, numbers and words.

use pest::iterators::Pair;

use super::Reader;
use super::stray::first_word;
use crate::ast::{Message, Number, StringPiece, StringValue, Value, ValueKind};
use crate::codes::syntax;
use crate::diag::Diagnostic;
use crate::literal;
use crate::span::Span;
use crate::text_format::Rule;

impl Reader<'_> {
    /// Reads a value of any kind.
    pub(super) fn value(&mut self, pair: Pair<'_, Rule>) -> Value {
        match pair.as_rule() {
            Rule::message | Rule::damaged_message => self.message(pair),
            Rule::list | Rule::message_list => self.list(pair),
            Rule::damaged_list => self.damaged_list(pair),
            Rule::string | Rule::damaged_string => self.string(pair),
            Rule::word => self.word(pair),
            _ => self.number(pair),
        }
    }

    fn message(&mut self, pair: Pair<'_, Rule>) -> Value {
        let mut message = Message::empty();
        let (start, end) = (pair.as_span().start(), pair.as_span().end());
        message.span = self.span(start..end);
        // If the file ends inside the message, its closing delimiter is beyond the text.
        message.delimiters = Some((self.span(start..start + 1), self.span(end - 1..end)));
        self.fields(pair.into_inner(), &mut message);
        let span = message.span;
        Value::new(ValueKind::Message(message), span)
    }

    fn list(&mut self, pair: Pair<'_, Rule>) -> Value {
        let span = self.span_of(&pair);
        let values = pair.into_inner().filter(|it| it.as_rule() != Rule::COMMENT);
        let values = values.map(|value| self.value(value)).collect();
        Value::new(ValueKind::List(values), span)
    }

    fn damaged_list(&mut self, pair: Pair<'_, Rule>) -> Value {
        let span = self.span_of(&pair);
        let mut values = Vec::new();
        // The last comma without a value after it, and whether a value may follow.
        let mut comma: Option<Span> = None;
        let mut free = true;
        let mut sound = true;
        for inner in pair.into_inner() {
            let rule = inner.as_rule();
            match rule {
                Rule::COMMENT => {}
                Rule::foreign_comment => self.foreign_comment(&inner),
                Rule::comma => {
                    let span = self.span_of(&inner);
                    if free && sound {
                        self.bad_list(span, "`,` without a value before it", "expected a value");
                    }
                    (comma, free, sound) = (Some(span), true, true);
                }
                Rule::junk => {
                    let span = self.trimmed(&inner);
                    if sound {
                        let shown = first_word(self.slice(span));
                        let place = self.part(span, 0..shown.len());
                        let message = format!("unexpected `{shown}` in a list");
                        self.bad_list(place, &message, "expected a value, `,` or `]`");
                    }
                    values.push(Value::new(ValueKind::Invalid, span));
                    (comma, free, sound) = (None, true, false);
                }
                _ => {
                    let mut value = self.value(inner);
                    if rule == Rule::damaged_list {
                        self.bad_list(value.span, "list within a list", "a list holds no lists");
                        value.value = ValueKind::Invalid;
                    } else if !free && sound {
                        let message = "`,` is missing between two values of a list";
                        self.bad_list(value.span, message, "expected `,` before this");
                    }
                    (comma, free) = (None, false);
                    values.push(value);
                }
            }
        }
        if let Some(comma) = comma.filter(|_| !values.is_empty() && sound) {
            let message = "`,` after the last value of a list";
            self.bad_list(comma, message, "expected a value after this");
        }
        Value::new(ValueKind::List(values), span)
    }

    fn bad_list(&mut self, span: Span, message: &str, label: &str) {
        self.report(Diagnostic::error(&syntax::BAD_LIST, span, message).label(label));
    }

    /// Reads adjacent string literals as one string.
    fn string(&mut self, pair: Pair<'_, Rule>) -> Value {
        let mut string = StringValue {
            bytes: Vec::new(),
            pieces: Vec::with_capacity(1),
        };
        let mut valid = true;
        let mut whole: Option<Span> = None;
        for inner in pair.into_inner() {
            let span = match inner.as_rule() {
                Rule::COMMENT => continue,
                Rule::unterminated => {
                    let span = self.trimmed(&inner);
                    self.unterminated(span);
                    valid = false;
                    span
                }
                _ => {
                    let span = self.span_of(&inner);
                    valid &= self.piece(inner, span, &mut string);
                    span
                }
            };
            whole = Some(whole.map_or(span, |whole| whole.to(span)));
        }
        let kind = valid.then_some(ValueKind::String(string));
        let span = whole.unwrap_or(Span::NONE);
        Value::new(kind.unwrap_or(ValueKind::Invalid), span)
    }

    /// Adds one string literal. Returns `false` if it has invalid escapes, which are reported.
    fn piece(&mut self, pair: Pair<'_, Rule>, span: Span, string: &mut StringValue) -> bool {
        let first = string.bytes.len();
        let parts = pair.into_inner();
        let has_escapes = parts.len() > 1;
        let mut offsets: Vec<u32> = Vec::new();
        let mut valid = true;
        for part in parts {
            let (start, written) = (part.as_span().start() as u32, part.as_str());
            if matches!(part.as_rule(), Rule::double | Rule::single) {
                string.bytes.extend_from_slice(written.as_bytes());
                if has_escapes {
                    offsets.extend(start..start + written.len() as u32);
                }
            } else if let Err(why) = literal::unescape(written, &mut string.bytes) {
                valid = false;
                let place = self.span_of(&part);
                let message = "invalid escape sequence in a string";
                let advice = "write a backslash itself as `\\\\`";
                let diagnostic = Diagnostic::error(&syntax::BAD_ESCAPE, place, message).label(why);
                self.report(diagnostic.fix(advice, place.at_start(), "\\"));
            } else {
                offsets.resize(string.bytes.len() - first, start);
            }
        }
        string.pieces.push(StringPiece {
            span,
            start: first,
            offsets,
        });
        valid
    }

    fn unterminated(&mut self, span: Span) {
        let quote = &self.slice(span)[..1];
        let message = "the string does not end on its line";
        let diagnostic = Diagnostic::error(&syntax::UNTERMINATED_STRING, span, message)
            .label(format!("no closing `{quote}`"))
            .hint(format!(
                "a string ends on the line it begins on, with the quote it began with: `{quote}`"
            ));
        self.report(diagnostic);
    }

    fn word(&mut self, pair: Pair<'_, Rule>) -> Value {
        let start = pair.as_span().start();
        let (mut negative, mut name, mut end) = (false, "", start);
        for inner in pair.into_inner() {
            match inner.as_rule() {
                Rule::minus => negative = true,
                Rule::identifier => (name, end) = (inner.as_str(), inner.as_span().end()),
                _ => {}
            }
        }
        let name = name.to_owned();
        Value::new(
            ValueKind::Identifier { negative, name },
            self.span(start..end),
        )
    }

    fn number(&mut self, pair: Pair<'_, Rule>) -> Value {
        let span = self.span_of(&pair);
        let mut negative = false;
        let mut kind = ValueKind::Invalid;
        for inner in pair.into_inner() {
            match inner.as_rule() {
                Rule::minus => negative = true,
                Rule::COMMENT => {}
                _ => {
                    let (place, written) = (self.span_of(&inner), inner.as_str());
                    match literal::number(inner) {
                        Ok(literal) => kind = ValueKind::Number(Number { negative, literal }),
                        Err((range, why)) => {
                            let message = format!("`{written}` is no number");
                            let place = self.part(place, range);
                            let diagnostic = Diagnostic::error(&syntax::BAD_NUMBER, place, message);
                            self.report(diagnostic.label(why));
                        }
                    }
                }
            }
        }
        Value::new(kind, span)
    }
}
