//! Port strings: `name`, `TAG:name`, `TAG:index:name`, and references to ports, `TAG`, `TAG:index`,
//! `:index`.
//!
//! Each part keeps its location inside the string literal, so that diagnostics point to the part at
//! fault.

use std::fmt;
use std::ops::Range;

use super::slot::Read;
use super::table::Lowering;
use crate::ast::{Field, StringValue, Value, ValueKind};
use crate::codes::ports;
use crate::diag::Diagnostic;
use crate::scalar;
use crate::span::{Span, Spanned};

/// Maximum index of a port.
pub const MAX_INDEX: u32 = 10_000;

/// One entry of `input_stream`, `output_stream`, `input_side_packet` or `output_side_packet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpec {
    /// Tag; empty for a port without one.
    pub tag: Spanned<String>,
    /// Index within the tag: as written, or 0 without one. Ports without a tag are numbered in
    /// order.
    pub index: u32,
    /// Name of the stream or side packet.
    pub name: Spanned<String>,
    /// Location of the string without its quotes.
    pub span: Span,
}

impl fmt::Display for PortSpec {
    /// Writes the port in the form that leaves out an index of 0.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.tag.as_str(), self.index) {
            ("", _) => write!(f, "{}", self.name),
            (tag, 0) => write!(f, "{tag}:{}", self.name),
            (tag, index) => write!(f, "{tag}:{index}:{}", self.name),
        }
    }
}

/// A reference to a port of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagIndex {
    /// Tag; empty for a port without one.
    pub tag: String,
    /// Index within the tag; the default is 0.
    pub index: u32,
    /// Location of the string without its quotes.
    pub span: Span,
}

impl fmt::Display for TagIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.tag.as_str(), self.index) {
            ("", index) => write!(f, ":{index}"),
            (tag, 0) => f.write_str(tag),
            (tag, index) => write!(f, "{tag}:{index}"),
        }
    }
}

/// A string with the locations of its parts.
struct PortText<'a> {
    content: &'a str,
    literal: Option<&'a StringValue>,
    /// Location of the whole text, if the text is not a literal of a file.
    span: Span,
}

impl PortText<'_> {
    fn span_of(&self, range: Range<usize>) -> Span {
        self.literal
            .map_or(self.span, |literal| literal.span_of(range))
    }

    fn whole(&self) -> Span {
        // An empty string is shown with its quotes, because nothing is visible between them.
        if self.content.is_empty() {
            self.span
        } else {
            self.span_of(0..self.content.len())
        }
    }

    /// Suggests another spelling of the range.
    fn correct(
        &self,
        diagnostic: Diagnostic,
        range: Range<usize>,
        corrected: String,
    ) -> Diagnostic {
        let advice = format!("write `{corrected}`");
        let is_verbatim = self
            .literal
            .is_some_and(|it| it.pieces.len() == 1 && it.pieces[0].offsets.is_empty());
        let can_edit = is_verbatim && !range.is_empty();
        diagnostic.advise(advice, can_edit.then(|| (self.span_of(range), corrected)))
    }
}

/// Implements reading a string as a port or a reference to one.
macro_rules! read_text {
    ($type:ty, $parse:path) => {
        impl Read for $type {
            fn read(value: &Value, field: &Field, cx: &mut Lowering) -> Option<Self> {
                let content = cx.accept(scalar::string(value), value, field)?;
                let literal = match &value.value {
                    ValueKind::String(literal) => Some(literal),
                    _ => None,
                };
                let span = value.span;
                let read = $parse(&PortText {
                    content,
                    literal,
                    span,
                });
                read.map_err(|diagnostic| cx.report(*diagnostic)).ok()
            }

            fn place(&self) -> Span {
                self.span
            }

            fn to_value(&self) -> ValueKind {
                ValueKind::text(self.to_string())
            }
        }
    };
}

read_text!(PortSpec, parse_port);
read_text!(TagIndex, parse_tag_index);

impl PortSpec {
    /// Parses a port string that is in no file. A port without a tag has index 0 until it is
    /// numbered with the others.
    pub fn parse(text: &str) -> Result<Self, Box<Diagnostic>> {
        parse_port(&PortText {
            content: text,
            literal: None,
            span: Span::NONE,
        })
    }
}

impl TagIndex {
    /// Parses a reference to a port, as in options such as `sync_set`. `span` is the location of
    /// the text, quotes included.
    pub fn parse(text: &str, span: Span) -> Result<Self, Box<Diagnostic>> {
        parse_tag_index(&PortText {
            content: text,
            literal: None,
            span,
        })
    }
}

/// The kinds of words in a port.
#[derive(Copy, Clone)]
enum Word {
    Tag,
    Name,
}

impl Word {
    fn is(self, text: &str) -> bool {
        let letter = |byte: u8| match self {
            Self::Tag => byte.is_ascii_uppercase() || byte == b'_',
            Self::Name => byte.is_ascii_lowercase() || byte == b'_',
        };
        let mut bytes = text.bytes();
        bytes.next().is_some_and(letter) && bytes.all(|byte| letter(byte) || byte.is_ascii_digit())
    }

    fn read(
        self,
        text: &PortText<'_>,
        range: Range<usize>,
    ) -> Result<Spanned<String>, Box<Diagnostic>> {
        let word = &text.content[range.clone()];
        if self.is(word) {
            return Ok(Spanned::new(word.to_owned(), text.span_of(range)));
        }
        let snake = to_snake(word);
        let (code, what, letters, corrected) = match self {
            Self::Tag => (
                &ports::BAD_TAG,
                "a tag",
                "tags are capital letters",
                snake.to_ascii_uppercase(),
            ),
            Self::Name => (
                &ports::BAD_STREAM_NAME,
                "a name of a stream or side packet",
                "names are lower-case letters",
                snake,
            ),
        };
        let message = format!("`{word}` is not {what}");
        let label = format!("{letters}, digits and `_`, and begin with no digit");
        let place = text.span_of(range.clone());
        let diagnostic = Diagnostic::error(code, place, message).label(label);
        Err(Box::new(if self.is(&corrected) {
            text.correct(diagnostic, range, corrected)
        } else {
            diagnostic
        }))
    }
}

/// Reads an index: decimal digits without leading zeros, at most [`MAX_INDEX`].
fn index(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let canonical = digits && (text == "0" || !text.starts_with('0'));
    let index: Option<u32> = text.parse().ok();
    index.filter(|&index| canonical && index <= MAX_INDEX)
}

fn parse_port(text: &PortText<'_>) -> Result<PortSpec, Box<Diagnostic>> {
    let bad = |why: &str| {
        let message = format!("`{}` is not a port", text.content);
        let diagnostic = Diagnostic::error(&ports::BAD_PORT, text.whole(), message);
        Err(Box::new(
            diagnostic
                .label(why)
                .hint("write `name`, `TAG:name` or `TAG:index:name`"),
        ))
    };
    let parts = parts(text.content);
    let (tag, number, name) = match parts.as_slice() {
        [name] => (None, None, name.clone()),
        [tag, name] => (Some(tag.clone()), None, name.clone()),
        [tag, number, name] => (Some(tag.clone()), Some(number.clone()), name.clone()),
        _ => return bad("more than two colons"),
    };
    let tag = match tag {
        None => Spanned::new(String::new(), text.span_of(0..0)),
        Some(range) if range.is_empty() => return bad("no tag before the first colon"),
        Some(range) => Word::Tag.read(text, range)?,
    };
    let index = match number {
        None => 0,
        Some(range) if range.is_empty() => return bad("no index between the colons"),
        Some(range) => read_index(text, range)?,
    };
    if name.is_empty() {
        return bad(match parts.len() {
            1 => "the string is empty",
            _ => "no name after the last colon",
        });
    }
    Ok(PortSpec {
        tag,
        index,
        name: Word::Name.read(text, name)?,
        span: text.whole(),
    })
}

fn parse_tag_index(text: &PortText<'_>) -> Result<TagIndex, Box<Diagnostic>> {
    let bad = |span: Span, why: &str| {
        Box::new(
            Diagnostic::error(&ports::BAD_TAG_INDEX, span, format!("`{}` is not a reference to a port", text.content))
                .label(why)
                .hint("write the port's tag, `TAG`, its tag and index, `TAG:1`, or `:1` where it has no tag"),
        )
    };
    let parts = parts(text.content);
    let (tag, number) = match parts.as_slice() {
        [tag] => (tag.clone(), None),
        [tag, number] => (tag.clone(), Some(number.clone())),
        _ => return Err(bad(text.whole(), "more than one colon")),
    };
    if !tag.is_empty() && !Word::Tag.is(&text.content[tag.clone()]) {
        let why = "not a tag: tags are capital letters, digits and `_`";
        return Err(bad(text.span_of(tag), why));
    }
    let index = match number {
        None => 0,
        Some(range) => index(&text.content[range.clone()])
            .ok_or_else(|| bad(text.span_of(range), "expected an index here, not a name"))?,
    };
    Ok(TagIndex {
        tag: text.content[tag].to_owned(),
        index,
        span: text.whole(),
    })
}

/// Returns the ranges between the colons of `text`.
fn parts(text: &str) -> Vec<Range<usize>> {
    let mut start = 0;
    text.split(':')
        .map(|part| {
            let range = start..start + part.len();
            start = range.end + 1;
            range
        })
        .collect()
}

fn read_index(text: &PortText<'_>, range: Range<usize>) -> Result<u32, Box<Diagnostic>> {
    let written = &text.content[range.clone()];
    index(written).ok_or_else(|| {
        let message = format!("`{written}` is not an index");
        let label = format!("expected a number from 0 to {MAX_INDEX} without leading zeros");
        Box::new(Diagnostic::error(&ports::BAD_INDEX, text.span_of(range), message).label(label))
    })
}

/// Converts `inputImage`, `input-image` and `Input Image` to `input_image`.
fn to_snake(text: &str) -> String {
    let mut snake = String::new();
    let mut previous = '_';
    for c in text.trim().chars() {
        if c.is_ascii_uppercase() && (previous.is_ascii_lowercase() || previous.is_ascii_digit()) {
            snake.push('_');
        }
        snake.push(if matches!(c, '-' | ' ' | '.' | '/') {
            '_'
        } else {
            c.to_ascii_lowercase()
        });
        previous = c;
    }
    snake
}
