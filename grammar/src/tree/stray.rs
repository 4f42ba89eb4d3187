//! Text that fits nowhere in a message, reported according to its probable meaning.

use pest::iterators::Pair;

use super::Reader;
use crate::ast::{Field, Value, ValueKind};
use crate::codes::syntax;
use crate::diag::Diagnostic;
use crate::span::Span;
use crate::text_format::Rule;

impl Reader<'_> {
    /// Reports text that is neither a field nor a separator. `answered` is the field directly
    /// before it.
    pub(super) fn stray(&mut self, pair: Pair<'_, Rule>, mut answered: Option<&mut Field>) {
        let mut after_junk = false;
        for inner in pair.into_inner() {
            match inner.as_rule() {
                Rule::foreign_comment => self.foreign_comment(&inner),
                Rule::junk => {
                    let span = self.trimmed(&inner);
                    let diagnostic = self.unexpected(span, answered.as_deref());
                    self.report(diagnostic);
                    if let Some(field) = answered.take_if(|field| continues(field, span)) {
                        field.value.value = ValueKind::Invalid;
                    }
                    after_junk = true;
                }
                Rule::COMMENT => {}
                _ => {
                    let value = self.value(inner);
                    if !after_junk {
                        self.missing_name(&value);
                    }
                }
            }
        }
    }

    /// Reports a comment of another language.
    pub(super) fn foreign_comment(&mut self, pair: &Pair<'_, Rule>) {
        let span = self.trimmed(pair);
        let message = "this is not a comment in a graph file";
        let diagnostic = Diagnostic::error(&syntax::FOREIGN_COMMENT, span, message);
        self.report(diagnostic.label("comments begin with `#`"));
    }

    /// Returns the span without the whitespace at its end.
    pub(super) fn trimmed(&self, pair: &Pair<'_, Rule>) -> Span {
        let span = self.span_of(pair);
        self.part(span, 0..self.slice(span).trim_end().len())
    }

    /// Makes the diagnostic for unreadable text. `answered` is the field before it, whose value the
    /// text may be.
    fn unexpected(&self, span: Span, answered: Option<&Field>) -> Diagnostic {
        let text = self.slice(span);
        let shown = first_word(text);
        let place = self.part(span, 0..shown.len());
        let unexpected =
            |message: String| Diagnostic::error(&syntax::UNEXPECTED_TEXT, place, message);
        let is_curly = |c: char| matches!(c, '\u{201C}' | '\u{201D}' | '\u{2018}' | '\u{2019}');
        match answered {
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
                    diagnostic.fix("write strings in quotes", place, format!("\"{shown}\""))
                } else {
                    diagnostic
                }
            }
            Some(field) if continues(field, span) => {
                let whole = field.value.span.to(place);
                let written = self.slice(whole);
                let message = format!("`{written}` is not a word");
                let diagnostic = Diagnostic::error(&syntax::UNEXPECTED_TEXT, whole, message)
                    .label("words are letters, digits and `_`");
                if text.len() == shown.len() && !written.contains(['"', '\'', '\\']) {
                    diagnostic.fix("write strings in quotes", whole, format!("\"{written}\""))
                } else {
                    diagnostic
                }
            }
            _ => unexpected(format!("unexpected `{shown}`")).label("expected a field"),
        }
    }

    fn missing_name(&mut self, value: &Value) {
        let (what, place) = match &value.value {
            ValueKind::Message(message) => ("message", message.head()),
            _ => ("list", self.part(value.span, 0..1)),
        };
        let message = format!("{what} without a field name");
        let diagnostic = Diagnostic::error(&syntax::MISSING_NAME, place, message)
            .label("expected a field's name before this")
            .hint("write `name { .. }` with the name of the field");
        self.report(diagnostic);
    }
}

/// Returns `true` if a field has no value at all.
fn is_missing(value: &Value) -> bool {
    value.value == ValueKind::Invalid && value.span.is_empty()
}

/// Returns `true` if the text at `span` directly follows the field's value, a word. `word.word` is
/// one value without its quotes.
fn continues(field: &Field, span: Span) -> bool {
    field.value.value.as_word().is_some() && field.value.span.end == span.start
}

/// Returns the beginning of unreadable text, short enough for a headline.
pub(super) fn first_word(text: &str) -> &str {
    let end = text
        .char_indices()
        .find(|&(i, c)| c.is_whitespace() || i >= 24)
        .map_or(text.len(), |(i, _)| i);
    &text[..end]
}
