//! Line breaks, indentation and the placement of comments.

use super::leaf;
use crate::ast::{Field, Message, StringPiece, Value, ValueKind};
use crate::span::{Source, Span};

/// Maximum length of lines in characters, if a message, a list or several strings can be broken.
pub const MAX_WIDTH: usize = 80;

/// Writes one file or message.
///
/// Everything is written in the order of the file, so comments are taken from the front of a list.
/// Comments before the next element get their own lines. A comment at the end of the last line
/// stays there.
pub(super) struct Printer<'a> {
    /// File; `None` for values made by a program.
    source: Option<&'a Source>,
    /// Comments that are not written yet.
    comments: &'a [Span],
    out: String,
    /// Start of the current line in `out`.
    line_start: usize,
    level: usize,
    /// Line of the file on which the last element ends; `None` at the start of a file, message or
    /// list, where no blank line is kept.
    last_line: Option<usize>,
}

impl<'a> Printer<'a> {
    pub(super) fn new(source: Option<&'a Source>, comments: &'a [Span]) -> Self {
        Self {
            source,
            comments,
            out: String::new(),
            line_start: 0,
            level: 0,
            last_line: None,
        }
    }

    pub(super) fn print(mut self, root: &Message) -> String {
        self.fields(&root.fields, u32::MAX);
        self.out
    }

    /// Writes the fields of a message, one per line, and the comments up to `end`.
    fn fields(&mut self, fields: &[Field], end: u32) {
        for (i, field) in fields.iter().enumerate() {
            let next = fields.get(i + 1).map_or(end, |next| next.span.start);
            if i > 0 && self.stands_apart(&fields[i - 1], field) {
                self.end_line();
            }
            self.begin(field.span.start, &field.value);
            self.name(field);
            let named = self.out.len();
            self.out.push(' ');
            match &field.value.value {
                _ if self.inline(&field.value) => {}
                ValueKind::String(string) => {
                    self.out.truncate(named);
                    self.end_line();
                    self.level += 1;
                    self.indent();
                    self.pieces(&string.pieces);
                    self.level -= 1;
                }
                _ => self.block(&field.value),
            }
            self.finish_line(field.value.span.end, field.separator, next);
        }
        self.comments_before(end);
    }

    /// Writes the values of a list, one per line, and the comments up to `end`.
    fn elements(&mut self, values: &[Value], end: u32) {
        for (i, value) in values.iter().enumerate() {
            let next = values.get(i + 1);
            self.begin(value.span.start, value);
            if !self.inline(value) {
                self.block(value);
            }
            if next.is_some() {
                self.out.push(',');
            }
            let limit = next.map_or(end, |next| next.span.start);
            self.finish_line(value.span.end, None, limit);
        }
        self.comments_before(end);
    }

    /// Writes the literals of a string, one per line, the first on the current line.
    fn pieces(&mut self, pieces: &[StringPiece]) {
        for (i, piece) in pieces.iter().enumerate() {
            if i > 0 {
                self.comments_before(piece.span.start);
                self.start_line(piece.span.start);
            }
            self.piece(piece);
            if let Some(next) = pieces.get(i + 1) {
                self.finish_line(piece.span.end, None, next.span.start);
            }
        }
    }

    /// Writes the comments before a field or value that begins at `start`, including those before
    /// the value itself, and starts its line.
    fn begin(&mut self, start: u32, value: &Value) {
        self.comments_before(start);
        while let Some(comment) = self.next_comment(value_start(value)) {
            self.start_line(start);
            self.comment(comment);
            self.last_line = Some(self.line(start));
        }
        self.start_line(start);
    }

    /// Writes a value that does not fit on one line.
    fn block(&mut self, value: &Value) {
        let (start, end) = (value.span.start, value.span.end.saturating_sub(1));
        match &value.value {
            ValueKind::Message(message) => {
                let first = message.fields.first().map_or(end, |it| it.span.start);
                self.open('{', start, first);
                self.fields(&message.fields, end);
                self.close('}');
            }
            ValueKind::List(values) => {
                let first = values.first().map_or(end, |it| it.span.start);
                self.open('[', start, first);
                self.elements(values, end);
                self.close(']');
            }
            ValueKind::String(string) => self.pieces(&string.pieces),
            ValueKind::Number(_) | ValueKind::Identifier { .. } | ValueKind::Invalid => {}
        }
    }

    fn open(&mut self, delimiter: char, at: u32, next: u32) {
        self.out.push(delimiter);
        self.finish_line(at + 1, None, next);
        self.level += 1;
        self.last_line = None;
    }

    fn close(&mut self, delimiter: char) {
        self.level -= 1;
        self.indent();
        self.out.push(delimiter);
    }

    /// Writes the value on the current line if it fits. Otherwise writes nothing and returns
    /// `false`.
    fn inline(&mut self, value: &Value) -> bool {
        let first = self.comments.first();
        let has_comment = || first.is_some_and(|it| it.start < value.span.end);
        let is_simple = match &value.value {
            ValueKind::Message(message) => message.fields.is_empty() && !has_comment(),
            ValueKind::List(values) => values.is_empty() && !has_comment(),
            ValueKind::String(string) => self.source.is_none() || string.pieces.len() == 1,
            ValueKind::Number(_) | ValueKind::Identifier { .. } | ValueKind::Invalid => true,
        };
        if is_simple {
            return self.on_line(value, usize::MAX);
        }
        let start = self.out.len();
        let fits = self.is_on_one_line(value) && self.on_line(value, MAX_WIDTH);
        if !fits {
            self.out.truncate(start);
        }
        fits
    }

    /// Returns `true` if a value with parts is on one line of its file. For values made by a
    /// program, lists are on one line and messages are not.
    fn is_on_one_line(&self, value: &Value) -> bool {
        if self.source.is_some() {
            return self.line(value.span.start) == self.line(value.span.end);
        }
        let is_message = |value: &Value| matches!(value.value, ValueKind::Message(_));
        match &value.value {
            ValueKind::List(values) => !values.iter().any(is_message),
            _ => !is_message(value),
        }
    }

    /// Writes the value on the current line. Gives up when the line is longer than `limit`.
    fn on_line(&mut self, value: &Value, limit: usize) -> bool {
        match &value.value {
            ValueKind::Message(message) if message.fields.is_empty() => self.out.push_str("{}"),
            ValueKind::Message(message) => {
                self.out.push('{');
                for field in &message.fields {
                    self.out.push(' ');
                    self.name(field);
                    self.out.push(' ');
                    if !self.on_line(&field.value, limit) {
                        return false;
                    }
                }
                self.out.push_str(" }");
            }
            ValueKind::List(values) => {
                self.out.push('[');
                for (i, value) in values.iter().enumerate() {
                    self.out.push_str(if i > 0 { ", " } else { "" });
                    if !self.on_line(value, limit) {
                        return false;
                    }
                }
                self.out.push(']');
            }
            ValueKind::String(string) if self.source.is_none() => {
                self.out.push_str(&leaf::quoted(string));
            }
            ValueKind::String(string) => {
                for (i, piece) in string.pieces.iter().enumerate() {
                    self.out.push_str(if i > 0 { " " } else { "" });
                    self.piece(piece);
                }
            }
            ValueKind::Number(_) | ValueKind::Identifier { .. } | ValueKind::Invalid => {
                self.out.push_str(&leaf::scalar(self.source, value));
            }
        }
        limit == usize::MAX || self.out[self.line_start..].chars().count() <= limit
    }

    fn name(&mut self, field: &Field) {
        self.out.push_str(&field.name.to_string());
        if !matches!(field.value.value, ValueKind::Message(_)) {
            self.out.push(':');
        }
    }

    fn piece(&mut self, piece: &StringPiece) {
        if let Some(source) = self.source {
            self.out.push_str(&leaf::piece(source, piece));
        }
    }

    /// Returns `true` if a blank line separates two fields made by a program. It surrounds messages
    /// at the top level.
    fn stands_apart(&self, before: &Field, after: &Field) -> bool {
        let is_message = |field: &Field| matches!(field.value.value, ValueKind::Message(_));
        self.source.is_none() && self.level == 0 && (is_message(before) || is_message(after))
    }

    /// Takes the next comment, if it begins before `limit`.
    fn next_comment(&mut self, limit: u32) -> Option<Span> {
        let (&first, rest) = self.comments.split_first()?;
        (first.start < limit).then(|| {
            self.comments = rest;
            first
        })
    }

    /// Writes the comments that begin before `limit`, one per line.
    fn comments_before(&mut self, limit: u32) {
        while let Some(comment) = self.next_comment(limit) {
            self.start_line(comment.start);
            self.comment(comment);
            self.last_line = Some(self.line(comment.start));
        }
    }

    /// Writes a comment and ends the line.
    fn comment(&mut self, comment: Span) {
        if let Some(source) = self.source {
            let text = &source.text()[comment.range()];
            self.out
                .push_str(text.trim_end_matches([' ', '\t', '\r', '\x0b', '\x0c']));
        }
        self.end_line();
    }

    /// Ends the line of an element that ends at `end`, with the comment after it or its separator.
    /// `next` is the start of the next element.
    fn finish_line(&mut self, end: u32, separator: Option<Span>, next: u32) {
        let line = self.line(end);
        let last = separator.map_or(line, |separator| self.line(separator.end));
        let behind = self.comments.first().is_some_and(|comment| {
            let own = self.line(comment.start);
            comment.start < next && (own == line || own == last)
        });
        self.last_line = Some(last);
        match self.next_comment(if behind { next } else { 0 }) {
            Some(comment) => {
                self.out.push_str("  ");
                self.comment(comment);
            }
            None => self.end_line(),
        }
    }

    /// Indents a line, after a blank line if the file has one before `at`.
    fn start_line(&mut self, at: u32) {
        let line = self.line(at);
        if self.last_line.is_some_and(|last| line > last + 1) {
            self.end_line();
        }
        self.indent();
    }

    fn indent(&mut self) {
        self.out.extend(std::iter::repeat_n("  ", self.level));
    }

    fn end_line(&mut self) {
        self.out.push('\n');
        self.line_start = self.out.len();
    }

    /// Returns the line of the file; 0 if there is no file.
    fn line(&self, offset: u32) -> usize {
        self.source.map_or(0, |source| source.line(offset as usize))
    }
}

/// Returns the offset from which comments stay inside the value: its delimiter, its first literal,
/// or the digits after its sign.
fn value_start(value: &Value) -> u32 {
    match &value.value {
        ValueKind::Message(_) | ValueKind::List(_) | ValueKind::String(_) => value.span.start,
        ValueKind::Number(_) | ValueKind::Identifier { .. } | ValueKind::Invalid => value.span.end,
    }
}
