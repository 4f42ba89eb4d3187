//! Values: messages, lists, strings, numbers and words.

use pest::iterators::Pair;

use super::{Reader, first_word};
use crate::ast::{Number, StringPiece, StringValue, Value, ValueKind};
use crate::codes::syntax;
use crate::diag::Diagnostic;
use crate::literal;
use crate::parse::Rule;
use crate::span::{Span, Spanned};

impl Reader<'_> {
    pub(super) fn value(&mut self, pair: Pair<'_, Rule>) -> Value {
        let span = self.span(&pair);
        match pair.as_rule() {
            Rule::message => {
                let length = span.len();
                // A message that the end of the file left open has its closing delimiter beyond the text.
                let close = if length > 1 {
                    length - 1..length
                } else {
                    length..length
                };
                let delimiters = (self.part(span, 0..1), self.part(span, close));
                let message = self.message(pair.into_inner(), span, Some(delimiters));
                Value::new(ValueKind::Message(message), span)
            }
            Rule::list => Value::new(ValueKind::List(self.list(pair)), span),
            Rule::string => self.string(pair),
            Rule::number => self.number(pair),
            _ => self.word(pair),
        }
    }

    fn list(&mut self, pair: Pair<'_, Rule>) -> Vec<Value> {
        let mut values = Vec::new();
        // The last comma without a value after it, and whether a value may come.
        let mut comma: Option<Span> = None;
        let mut free = true;
        let mut sound = true;
        for inner in pair.into_inner() {
            let rule = inner.as_rule();
            match rule {
                Rule::comment_text => {}
                Rule::foreign_comment => self.foreign_comment(&inner),
                Rule::comma => {
                    let span = self.span(&inner);
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
                        self.bad_list(
                            place,
                            &format!("unexpected `{shown}` in a list"),
                            "expected a value, `,` or `]`",
                        );
                    }
                    values.push(Value::new(ValueKind::Invalid, span));
                    (comma, free, sound) = (None, true, false);
                }
                _ => {
                    let value = self.value(inner);
                    if rule == Rule::list {
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
                }
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

    fn string(&mut self, pair: Pair<'_, Rule>) -> Value {
        let mut string = StringValue {
            bytes: Vec::new(),
            pieces: Vec::new(),
        };
        let mut valid = true;
        let mut whole: Option<Span> = None;
        for inner in pair.into_inner() {
            let span = match inner.as_rule() {
                Rule::quoted => self.span(&inner),
                Rule::unterminated => self.trimmed(&inner),
                _ => continue,
            };
            whole = Some(whole.map_or(span, |whole| whole.to(span)));
            if inner.as_rule() == Rule::unterminated {
                valid = false;
                let quote = &self.slice(span)[..1];
                self.report(
                    Diagnostic::error(&syntax::UNTERMINATED_STRING, span, "the string does not end on its line")
                        .label(format!("no closing `{quote}`"))
                        .hint(format!("a string ends on the line it begins on, with the quote it began with: `{quote}`")),
                );
                continue;
            }
            let content = &self.slice(span)[1..span.len() - 1];
            let start = string.bytes.len();
            match literal::unescape(content, &mut string.bytes) {
                Ok(mut offsets) => {
                    for offset in &mut offsets {
                        *offset += span.start + 1;
                    }
                    string.pieces.push(StringPiece {
                        span,
                        start,
                        offsets,
                    });
                }
                Err(errors) => {
                    valid = false;
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
                }
            }
        }
        let span = whole.unwrap_or(Span::new(self.file, 0..0));
        Value::new(
            if valid {
                ValueKind::String(string)
            } else {
                ValueKind::Invalid
            },
            span,
        )
    }

    fn number(&mut self, pair: Pair<'_, Rule>) -> Value {
        let span = self.span(&pair);
        let mut negative = false;
        let mut kind = ValueKind::Invalid;
        for inner in pair.into_inner() {
            match inner.as_rule() {
                Rule::minus => negative = true,
                Rule::digits => match literal::number(inner.as_str()) {
                    Ok(literal) => kind = ValueKind::Number(Number { negative, literal }),
                    Err(error) => {
                        let place = self.part(self.span(&inner), error.range);
                        let message = format!("`{}` is no number", inner.as_str());
                        self.report(
                            Diagnostic::error(&syntax::BAD_NUMBER, place, message).label(error.why),
                        );
                    }
                },
                _ => {}
            }
        }
        Spanned::new(kind, span)
    }

    fn word(&mut self, pair: Pair<'_, Rule>) -> Value {
        let mut negative = false;
        let mut span: Option<Span> = None;
        let mut name = String::new();
        for inner in pair.into_inner() {
            let own = self.span(&inner);
            match inner.as_rule() {
                Rule::minus => negative = true,
                Rule::identifier => inner.as_str().clone_into(&mut name),
                _ => continue,
            }
            span = Some(span.map_or(own, |span| span.to(own)));
        }
        Value::new(
            ValueKind::Identifier { negative, name },
            span.unwrap_or(Span::new(self.file, 0..0)),
        )
    }
}
