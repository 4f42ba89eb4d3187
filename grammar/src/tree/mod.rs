//! The parser: reads a text whose delimiters match into a tree, and reports what does not belong.
//!
//! It takes every text: what is no field is stray text that ends with its line, or a message or list without a name.
//! Nothing is read twice but a word, which may turn out to be the next field's name, and a list that began like a name in
//! brackets; so it takes linear time. [`crate::scan`] makes the delimiters match beforehand and bounds their depth.

mod cursor;
mod name;
mod stray;
mod value;

use std::ops::Range;

use crate::ast::{Field, Message, Name, Value, ValueKind};
use crate::codes::syntax;
use crate::diag::{Diagnostic, Findings};
use crate::span::{FileId, Span};
use cursor::Cursor;

/// Reads one file.
pub(crate) struct Reader<'t> {
    file: FileId,
    /// The file's text, which may be shorter than the text with matching delimiters that is read.
    text: &'t str,
    cursor: Cursor<'t>,
    /// The fields of the messages that are being read, the innermost message's last.
    fields: Vec<Field>,
    pub(crate) diagnostics: Findings,
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
    /// A reader of `matched`, the `text` of a file with matching delimiters.
    pub(crate) fn new(file: FileId, text: &'t str, matched: &'t str) -> Self {
        Self {
            file,
            text,
            cursor: Cursor::new(matched),
            fields: Vec::new(),
            diagnostics: Findings::default(),
        }
    }

    /// Reads the whole file.
    pub(crate) fn file(&mut self) -> Message {
        let mut root = Message {
            span: Span::new(self.file, 0..self.text.len()),
            ..Message::empty()
        };
        self.entries(&mut root);
        debug_assert!(
            self.cursor.is_at_end(),
            "the scan has made delimiters match"
        );
        root
    }

    /// The span of a range of the text that is read, as far as it is in the file.
    fn span(&self, range: Range<usize>) -> Span {
        let end = self.text.len();
        Span::new(self.file, range.start.min(end)..range.end.min(end))
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

    /// Reads fields up to a closing delimiter or the end.
    fn entries(&mut self, message: &mut Message) {
        let first = self.fields.len();
        let mut previous = Previous::Nothing;
        loop {
            self.cursor.space();
            let Some(next) = self.cursor.peek() else {
                break;
            };
            if matches!(next, b',' | b';') {
                previous = self.separator(previous, first);
            } else if let Some(name) = self.name() {
                let field = self.field(name);
                message.incomplete |= field.is_none();
                self.fields.extend(field);
                previous = Previous::Field;
            } else {
                let answered = previous == Previous::Field && self.fields.len() > first;
                if !self.stray(answered) {
                    break;
                }
                message.incomplete = true;
                previous = Previous::Stray;
            }
        }
        message.fields = self.fields.drain(first..).collect();
    }

    /// Reads a separator, which belongs to the last field if that is what came before it; `first` is the message's first.
    fn separator(&mut self, previous: Previous, first: usize) -> Previous {
        let span = self.span(self.cursor.at..self.cursor.at + 1);
        self.cursor.at += 1;
        match (previous, self.fields[first..].last_mut()) {
            (Previous::Field, Some(field)) => field.separator = Some(span),
            (Previous::Stray | Previous::Field, _) => {}
            (Previous::Nothing | Previous::Separated, _) => self.extra_separator(span),
        }
        if previous == Previous::Stray {
            Previous::Stray
        } else {
            Previous::Separated
        }
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

    /// Reads the field whose name has been read; none if the name is no name and has been reported.
    fn field(&mut self, name: Option<Name>) -> Option<Field> {
        self.cursor.space();
        let colon = self.cursor.take(b':').map(|colon| self.span(colon));
        let value = self.value();
        let name = name?;
        let Some(value) = value else {
            let end = colon.map_or(name.span.end, |colon| colon.end) as usize;
            // What follows on the line is meant to be the value, and is reported instead.
            if !self.is_stray_on_line_of(end) {
                self.missing_value(&name, colon);
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

    /// Tells whether stray text comes next, after a field without a value, on the line of its `end`.
    fn is_stray_on_line_of(&self, end: usize) -> bool {
        let is_stray = match self.cursor.peek() {
            None | Some(b',' | b';' | b'}' | b'>' | b']' | b'_') => false,
            Some(byte) => !byte.is_ascii_alphabetic(),
        };
        is_stray && !self.cursor.slice(end..self.cursor.at).contains('\n')
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
