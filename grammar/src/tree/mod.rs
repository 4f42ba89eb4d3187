//! Construction of the tree from the matches of the grammar, with reports of invalid text.
//!
//! The rules for valid and for damaged texts produce the same parts in the same order, so one
//! reader serves both.

mod name;
mod stray;
mod value;

use std::ops::Range;

use pest::iterators::{Pair, Pairs};

use crate::ast::{Field, Message, Name, NameKind, Value, ValueKind};
use crate::codes::syntax;
use crate::diag::{Diagnostic, Findings};
use crate::span::{FileId, Span};
use crate::text_format::Rule;

/// Reads the pairs of one file.
pub(crate) struct Reader<'t> {
    file: FileId,
    /// Text of the file, which may be shorter than the matched text.
    text: &'t str,
    pub(crate) diagnostics: Findings,
}

/// The previous entry of a message, which decides what may follow.
#[derive(Copy, Clone, PartialEq)]
enum Previous {
    Nothing,
    Field,
    /// A field with its separator.
    Separated,
    /// A reported mistake; the text after it is probably a consequence.
    Stray,
}

impl<'t> Reader<'t> {
    pub(crate) fn new(file: FileId, text: &'t str) -> Self {
        Self {
            file,
            text,
            diagnostics: Findings::default(),
        }
    }

    /// Returns the span of a range of the matched text, as far as it is in the file.
    fn span(&self, range: Range<usize>) -> Span {
        let end = self.text.len();
        Span::new(self.file, range.start.min(end)..range.end.min(end))
    }

    pub(crate) fn span_of(&self, pair: &Pair<'_, Rule>) -> Span {
        let span = pair.as_span();
        self.span(span.start()..span.end())
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

    /// Reads the fields of a message or of a whole file.
    pub(crate) fn fields(&mut self, mut pairs: Pairs<'_, Rule>, message: &mut Message) {
        let mut previous = Previous::Nothing;
        while let Some(pair) = pairs.next() {
            match pair.as_rule() {
                Rule::field | Rule::damaged_field => {
                    let stray = pairs.peek().filter(|next| next.as_rule() == Rule::stray);
                    let field = self.field(pair, stray.map(|stray| stray.as_span().start()));
                    message.incomplete |= field.is_none();
                    message.fields.extend(field);
                    previous = Previous::Field;
                }
                Rule::separator => {
                    let span = self.span_of(&pair);
                    match (previous, message.fields.last_mut()) {
                        (Previous::Field, Some(field)) => field.separator = Some(span),
                        (Previous::Stray | Previous::Field, _) => {}
                        (Previous::Nothing | Previous::Separated, _) => self.extra_separator(span),
                    }
                    if previous != Previous::Stray {
                        previous = Previous::Separated;
                    }
                }
                Rule::stray => {
                    message.incomplete = true;
                    let last = message.fields.last_mut();
                    self.stray(pair, last.filter(|_| previous == Previous::Field));
                    previous = Previous::Stray;
                }
                _ => {}
            }
        }
    }

    fn extra_separator(&mut self, span: Span) {
        let separator = self.slice(span);
        let message = format!("`{separator}` separates nothing");
        let diagnostic = Diagnostic::error(&syntax::EXTRA_SEPARATOR, span, message);
        self.report(
            diagnostic
                .label("no field before it")
                .fix("remove it", span, ""),
        );
    }

    /// Reads a field. `stray` is the start of unreadable text directly after it. Returns `None` if
    /// its name is invalid, which has been reported.
    fn field(&mut self, pair: Pair<'_, Rule>, stray: Option<usize>) -> Option<Field> {
        let (mut name, mut colon, mut value) = (None, None, None);
        for inner in pair.into_inner() {
            match inner.as_rule() {
                Rule::identifier => {
                    name = Some(Name {
                        span: self.span_of(&inner),
                        kind: NameKind::Plain(inner.as_str().to_owned()),
                    });
                }
                Rule::bracketed => name = Some(self.bracketed(inner)),
                Rule::damaged_bracketed => name = self.damaged_bracketed(inner),
                Rule::colon => colon = Some(self.span_of(&inner)),
                Rule::COMMENT => {}
                _ => value = Some(self.value(inner)),
            }
        }
        let name = name?;
        if let Some(value) = &value
            && colon.is_none()
            && needs_colon(&value.value)
        {
            self.missing_colon(&name, value);
        }
        let value = value.unwrap_or_else(|| {
            let end = colon.map_or(name.span.end, |colon| colon.end) as usize;
            // The rest of the line is meant to be the value and is reported instead.
            if stray.is_none_or(|stray| self.text[end..stray].contains('\n')) {
                self.missing_value(&name, colon);
            }
            Value::new(ValueKind::Invalid, self.span(end..end))
        });
        Some(Field {
            span: name.span.to(value.span),
            name,
            colon,
            value,
            separator: None,
        })
    }

    fn missing_value(&mut self, name: &Name, colon: Option<Span>) {
        let place = name.span.to(colon.unwrap_or(name.span));
        let message = format!("`{name}` has no value");
        let diagnostic = Diagnostic::error(&syntax::MISSING_VALUE, place, message);
        self.report(diagnostic.label("expected a value after this"));
    }

    fn missing_colon(&mut self, name: &Name, value: &Value) {
        let message = format!("`:` is missing after `{name}`");
        let diagnostic = Diagnostic::error(&syntax::MISSING_COLON, name.span, message)
            .label("expected `:` after this")
            .also(value.span, "before this value")
            .fix(format!("write `{name}: ..`"), name.span.at_end(), ":");
        self.report(diagnostic);
    }
}

/// Returns `true` if a colon must precede the value.
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
