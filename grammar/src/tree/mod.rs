//! Builds the tree from what the grammar has matched, and reports what the grammar only let pass.

mod name;
mod value;

use std::ops::Range;

use pest::iterators::{Pair, Pairs};

use crate::ast::{Field, Message, Name, NameKind, Value, ValueKind};
use crate::codes::syntax;
use crate::diag::Diagnostic;
use crate::parse::Rule;
use crate::span::{FileId, Span};

/// Reads the pairs of one file.
pub(crate) struct Reader<'t> {
    file: FileId,
    /// The file's text, which may be shorter than the text that was matched.
    text: &'t str,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// What the previous entry of a message was, for what may follow it.
#[derive(Copy, Clone, PartialEq)]
enum Previous {
    Nothing,
    Field,
    /// A field that has its separator.
    Separated,
    /// Something that was reported; what follows it is probably a consequence.
    Stray,
}

impl<'t> Reader<'t> {
    pub(crate) fn new(file: FileId, text: &'t str) -> Self {
        Self {
            file,
            text,
            diagnostics: Vec::new(),
        }
    }

    /// Reads the whole file.
    pub(crate) fn file(&mut self, pairs: Pairs<'_, Rule>) -> Message {
        let span = Span::new(self.file, 0..self.text.len());
        self.message(pairs, span, None)
    }

    fn range(&self, pair: &Pair<'_, Rule>) -> Range<usize> {
        let span = pair.as_span();
        span.start().min(self.text.len())..span.end().min(self.text.len())
    }

    fn span(&self, pair: &Pair<'_, Rule>) -> Span {
        Span::new(self.file, self.range(pair))
    }

    fn part(&self, span: Span, range: Range<usize>) -> Span {
        let start = span.start as usize;
        Span::new(self.file, start + range.start..start + range.end)
    }

    fn slice(&self, span: Span) -> &'t str {
        &self.text[span.range()]
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    fn message(
        &mut self,
        pairs: Pairs<'_, Rule>,
        span: Span,
        delimiters: Option<(Span, Span)>,
    ) -> Message {
        let mut message = Message {
            span,
            delimiters,
            fields: Vec::new(),
            incomplete: false,
        };
        let mut previous = Previous::Nothing;
        let mut pairs = pairs.peekable();
        while let Some(pair) = pairs.next() {
            match pair.as_rule() {
                Rule::field => {
                    let stray = pairs.peek().filter(|next| next.as_rule() == Rule::stray);
                    let stray = stray.map(|next| self.range(next).start);
                    let field = self.field(pair, stray);
                    message.incomplete |= field.is_none();
                    message.fields.extend(field);
                    previous = Previous::Field;
                }
                Rule::separator => {
                    let span = self.span(&pair);
                    match (previous, message.fields.last_mut()) {
                        (Previous::Field, Some(field)) => field.separator = Some(span),
                        (Previous::Stray | Previous::Field, _) => {}
                        (Previous::Nothing | Previous::Separated, _) => self.extra_separator(span),
                    }
                    previous = if previous == Previous::Stray {
                        Previous::Stray
                    } else {
                        Previous::Separated
                    };
                }
                Rule::stray => {
                    message.incomplete = true;
                    let last = message.fields.last_mut();
                    let answered = last.filter(|_| previous == Previous::Field);
                    self.stray(pair, answered);
                    previous = Previous::Stray;
                }
                _ => {}
            }
        }
        message
    }

    fn extra_separator(&mut self, span: Span) {
        let separator = self.slice(span);
        self.report(
            Diagnostic::error(
                &syntax::EXTRA_SEPARATOR,
                span,
                format!("`{separator}` separates nothing"),
            )
            .label("no field before it")
            .fix("remove it", span, ""),
        );
    }

    /// Reads a field; `stray` is where something unreadable begins directly after it.
    fn field(&mut self, pair: Pair<'_, Rule>, stray: Option<usize>) -> Option<Field> {
        let mut name = None;
        let mut colon = None;
        let mut value = None;
        for inner in pair.into_inner() {
            match inner.as_rule() {
                Rule::identifier => {
                    let kind = NameKind::Plain(inner.as_str().to_owned());
                    name = Some(Name {
                        span: self.span(&inner),
                        kind,
                    });
                }
                Rule::bracketed => name = self.bracketed(inner),
                Rule::colon => colon = Some(self.span(&inner)),
                Rule::message | Rule::list | Rule::string | Rule::number | Rule::word => {
                    value = Some(self.value(inner));
                }
                _ => {}
            }
        }
        let name = name?;
        let Some(value) = value else {
            let end = colon.map_or(name.span.end, |colon| colon.end) as usize;
            match stray {
                // What follows on the line is meant to be the value, and is reported instead.
                Some(stray) if !self.text[end..stray].contains('\n') => {}
                _ => self.missing_value(&name, colon),
            }
            let value = Value::new(ValueKind::Invalid, Span::new(self.file, end..end));
            return Some(Field {
                span: name.span.to(value.span),
                name,
                colon,
                value,
                separator: None,
            });
        };
        if colon.is_none() && needs_colon(&value.value) {
            self.missing_colon(&name, &value);
        }
        Some(Field {
            span: name.span.to(value.span),
            name,
            colon,
            value,
            separator: None,
        })
    }

    fn missing_value(&mut self, name: &Name, colon: Option<Span>) {
        let after = colon.unwrap_or(name.span);
        self.report(
            Diagnostic::error(
                &syntax::MISSING_VALUE,
                name.span.to(after),
                format!("`{name}` has no value"),
            )
            .label("expected a value after this"),
        );
    }

    fn missing_colon(&mut self, name: &Name, value: &Value) {
        self.report(
            Diagnostic::error(
                &syntax::MISSING_COLON,
                name.span,
                format!("`:` is missing after `{name}`"),
            )
            .label("expected `:` after this")
            .also(value.span, "before this value")
            .fix(format!("write `{name}: ..`"), name.span.at_end(), ":"),
        );
    }

    /// Reports what fits nowhere; `answered` is the field before it.
    fn stray(&mut self, pair: Pair<'_, Rule>, mut answered: Option<&mut Field>) {
        let mut reported = false;
        for inner in pair.into_inner() {
            match inner.as_rule() {
                Rule::foreign_comment => {
                    self.foreign_comment(&inner);
                    reported = true;
                }
                Rule::junk => {
                    let span = self.trimmed(&inner);
                    self.unexpected(span, answered.take());
                    reported = true;
                }
                Rule::message | Rule::list => {
                    let value = self.value(inner);
                    if !reported {
                        self.missing_name(&value);
                    }
                }
                _ => {}
            }
        }
    }

    fn foreign_comment(&mut self, pair: &Pair<'_, Rule>) {
        let span = self.trimmed(pair);
        self.report(
            Diagnostic::error(
                &syntax::FOREIGN_COMMENT,
                span,
                "this is no comment in a graph file",
            )
            .label("comments begin with `#`"),
        );
    }

    /// The span without the whitespace at its end.
    fn trimmed(&self, pair: &Pair<'_, Rule>) -> Span {
        let range = self.range(pair);
        let text = self.text[range.clone()].trim_end();
        Span::new(self.file, range.start..range.start + text.len())
    }

    /// Reports unreadable text; `answered` is the field before it, which may have been meant to take it.
    fn unexpected(&mut self, span: Span, answered: Option<&mut Field>) {
        let text = self.slice(span);
        let shown = first_word(text);
        let place = self.part(span, 0..shown.len());
        let unexpected =
            |message: String| Diagnostic::error(&syntax::UNEXPECTED_TEXT, place, message);
        let is_curly = |c: char| matches!(c, '\u{201C}' | '\u{201D}' | '\u{2018}' | '\u{2019}');
        let diagnostic = match answered {
            Some(field) if is_missing(&field.value) && field.colon.is_none() => {
                let name = &field.name;
                let message = format!("expected `:` or `{{` after `{name}`, found `{shown}`");
                let diagnostic = unexpected(message).label("expected `:` or `{`");
                if text.starts_with('=') {
                    let sign = name.span.at_end().to(self.part(span, 0..1));
                    diagnostic.fix(format!("write `{name}: ..`"), sign, ":")
                } else {
                    diagnostic
                }
            }
            Some(field) if is_missing(&field.value) => {
                let message = format!("expected a value for `{}`, found `{shown}`", field.name);
                let diagnostic = unexpected(message).label("expected a value");
                if text.starts_with(is_curly) {
                    diagnostic.hint("write strings in straight quotes: `\"..\"`")
                } else if text.len() == shown.len() && !text.contains(['"', '\'', '\\']) {
                    diagnostic.fix("strings stand in quotes", place, format!("\"{shown}\""))
                } else {
                    diagnostic
                }
            }
            // `word.word`: one value that lacks its quotes.
            Some(field) if is_word(&field.value) && field.value.span.end == span.start => {
                let whole = field.value.span.to(place);
                field.value.value = ValueKind::Invalid;
                let written = self.slice(whole);
                let diagnostic = Diagnostic::error(
                    &syntax::UNEXPECTED_TEXT,
                    whole,
                    format!("`{written}` is no word"),
                )
                .label("words are letters, digits and `_`");
                if text.len() == shown.len() && !written.contains(['"', '\'', '\\']) {
                    diagnostic.fix("strings stand in quotes", whole, format!("\"{written}\""))
                } else {
                    diagnostic
                }
            }
            _ => unexpected(format!("unexpected `{shown}`")).label("expected a field"),
        };
        self.report(diagnostic);
    }

    fn missing_name(&mut self, value: &Value) {
        let (what, place) = match &value.value {
            ValueKind::Message(message) => ("message", message.head()),
            _ => ("list", self.part(value.span, 0..1)),
        };
        self.report(
            Diagnostic::error(
                &syntax::MISSING_NAME,
                place,
                format!("{what} without a field name"),
            )
            .label("expected a field's name before this")
            .hint("write `name { .. }` with the name of the field"),
        );
    }
}

/// Tells whether a field has no value at all.
fn is_missing(value: &Value) -> bool {
    value.value == ValueKind::Invalid && value.span.is_empty()
}

fn is_word(value: &Value) -> bool {
    matches!(
        value.value,
        ValueKind::Identifier {
            negative: false,
            ..
        }
    )
}

/// Tells whether a colon must stand before the value.
fn needs_colon(value: &ValueKind) -> bool {
    match value {
        ValueKind::Message(_) => false,
        ValueKind::List(values) => values.iter().any(|value| needs_colon(&value.value)),
        ValueKind::String(_)
        | ValueKind::Number(_)
        | ValueKind::Identifier { .. }
        | ValueKind::Invalid => true,
    }
}

/// The beginning of unreadable text, short enough for a headline.
fn first_word(text: &str) -> &str {
    let end = text
        .char_indices()
        .find(|&(i, c)| c.is_whitespace() || i >= 24)
        .map_or(text.len(), |(i, _)| i);
    &text[..end]
}
