//! Builds the tree from what the grammar has matched, and reports what the grammar only let pass.

use std::ops::Range;

use pest::iterators::{Pair, Pairs};

use crate::ast::{
    Field, Message, Name, NameKind, Number, StringPiece, StringValue, Value, ValueKind,
};
use crate::codes::syntax;
use crate::diag::Diagnostic;
use crate::literal;
use crate::parse::Rule;
use crate::span::{FileId, Span, Spanned};

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
                    let answered = message
                        .fields
                        .last()
                        .filter(|_| previous == Previous::Field);
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
    fn stray(&mut self, pair: Pair<'_, Rule>, answered: Option<&Field>) {
        let mut reported = false;
        for inner in pair.into_inner() {
            match inner.as_rule() {
                Rule::foreign_comment => {
                    let span = self.trimmed(&inner);
                    self.report(
                        Diagnostic::error(
                            &syntax::FOREIGN_COMMENT,
                            span,
                            "this is no comment in a graph file",
                        )
                        .label("comments begin with `#`"),
                    );
                    reported = true;
                }
                Rule::junk => {
                    let span = self.trimmed(&inner);
                    self.unexpected(span, answered);
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

    /// The span without the whitespace at its end.
    fn trimmed(&self, pair: &Pair<'_, Rule>) -> Span {
        let range = self.range(pair);
        let text = self.text[range.clone()].trim_end();
        Span::new(self.file, range.start..range.start + text.len())
    }

    fn unexpected(&mut self, span: Span, answered: Option<&Field>) {
        let text = self.slice(span);
        let shown = first_word(text);
        let shown_span = self.part(span, 0..shown.len());
        let is_curly = |c: char| matches!(c, '\u{201C}' | '\u{201D}' | '\u{2018}' | '\u{2019}');
        let unfinished = answered
            .filter(|field| field.value.value == ValueKind::Invalid && field.value.span.is_empty());
        let mut diagnostic = match unfinished {
            Some(field) if field.colon.is_none() => {
                let message = format!(
                    "expected `:` or `{{` after `{}`, found `{shown}`",
                    field.name
                );
                Diagnostic::error(&syntax::UNEXPECTED_TEXT, shown_span, message)
                    .label("expected `:` or `{`")
            }
            Some(field) => {
                let message = format!("expected a value for `{}`, found `{shown}`", field.name);
                Diagnostic::error(&syntax::UNEXPECTED_TEXT, shown_span, message)
                    .label("expected a value")
            }
            None => Diagnostic::error(
                &syntax::UNEXPECTED_TEXT,
                shown_span,
                format!("unexpected `{shown}`"),
            )
            .label("expected a field"),
        };
        if text.starts_with(is_curly) {
            diagnostic = diagnostic.hint("write strings in straight quotes: `\"..\"`");
        } else if let (Some(field), true) = (unfinished, text.starts_with('=')) {
            let sign = self.part(span, 0..1);
            diagnostic = diagnostic.fix(format!("write `{}: ..`", field.name), sign, ":");
        } else if let Some(field) = answered
            && field.value.span.end == span.start
            && matches!(field.value.value, ValueKind::Identifier { .. })
        {
            diagnostic = diagnostic.hint("strings stand in quotes: `\"..\"`");
        }
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

    /// Reads `[..]` as an extension's or message type's name; reports anything else.
    fn bracketed(&mut self, pair: Pair<'_, Rule>) -> Option<Name> {
        let span = self.span(&pair);
        let mut text = String::new();
        let mut end = 0;
        for part in pair
            .into_inner()
            .filter(|inner| inner.as_rule() == Rule::url_part)
        {
            let range = self.range(&part);
            let piece = part.as_str();
            let apart = !text.is_empty() && range.start > end;
            if apart && !text.ends_with(['.', '/']) && !piece.starts_with(['.', '/']) {
                let place = Span::new(self.file, end..range.start);
                self.bad_name(span, place, "a space may stand only beside `.` and `/`");
                return None;
            }
            text.push_str(piece);
            end = range.end;
        }
        match name_kind(&text) {
            Ok(kind) => Some(Name { span, kind }),
            Err(why) => {
                self.bad_name(span, span, why);
                None
            }
        }
    }

    fn bad_name(&mut self, whole: Span, place: Span, why: &str) {
        let message = format!(
            "`{}` is no name of an extension or message type",
            self.slice(whole)
        );
        self.report(
            Diagnostic::error(&syntax::BAD_BRACKET_NAME, place, message)
                .label(why)
                .hint("write `[package.Type.ext]` or `[type.googleapis.com/package.Type]`"),
        );
    }

    fn value(&mut self, pair: Pair<'_, Rule>) -> Value {
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
                Rule::comma => {
                    let span = self.span(&inner);
                    if free && sound {
                        self.bad_list(span, "`,` without a value before it", "expected a value");
                    }
                    (comma, free, sound) = (Some(span), true, true);
                }
                Rule::list_junk => {
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
                    (comma, free, sound) = (None, true, false);
                }
                _ => {
                    let value = self.value(inner);
                    if rule == Rule::list {
                        self.bad_list(value.span, "list within a list", "a list holds no lists");
                    } else if !free && sound {
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

/// Tells what a name in brackets names, or what is wrong with it.
fn name_kind(text: &str) -> Result<NameKind, &'static str> {
    let Some((prefix, name)) = text.rsplit_once('/') else {
        return match full_name(text) {
            true => Ok(NameKind::Extension(text.to_owned())),
            false if text.is_empty() => Err("the brackets are empty"),
            false => Err("expected words of letters, digits and `_` with `.` between"),
        };
    };
    let percent = |at: usize| {
        prefix
            .as_bytes()
            .get(at + 1..at + 3)
            .is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
    };
    if prefix.is_empty() {
        return Err("no URL prefix before the `/`");
    }
    if prefix.starts_with('/') {
        return Err("the URL prefix begins with `/`");
    }
    if !prefix.match_indices('%').all(|(at, _)| percent(at)) {
        return Err("`%` must be followed by two hexadecimal digits");
    }
    if !full_name(name) {
        return Err("expected a message type's full name after the last `/`");
    }
    Ok(NameKind::Any {
        prefix: prefix.to_owned(),
        type_name: name.to_owned(),
    })
}

/// Tells whether the text is identifiers with dots between.
fn full_name(text: &str) -> bool {
    text.split('.').all(|part| {
        part.bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}
