//! The tree of a text-format file: fields and values with their spans, and no idea of any schema.
//!
//! The tree keeps what a formatter needs to write the file again (delimiters, separators, string
//! pieces, comments) and what a diagnostic needs to point at any part of it. Nesting is at most
//! [`crate::parse::MAX_DEPTH`], so code may recurse over it.

use std::ops::Range;

use crate::span::{FileId, Span, Spanned};

/// A parsed file.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// Which file.
    pub id: FileId,
    /// The fields at the top level; a message without delimiters.
    pub root: Message,
    /// Every comment from its `#` to the end of its line, in order of appearance.
    pub comments: Vec<Span>,
    /// False when a delimiter is unclosed or unmatched: then the nesting is a guess, and nothing
    /// should be concluded from what is, or is not, inside a message.
    pub balanced: bool,
}

/// A message: the fields between `{` and `}`, between `<` and `>`, or of a whole file.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// All of it, delimiters included.
    pub span: Span,
    /// The opening and closing delimiter; none at the top level of a file.
    pub delimiters: Option<(Span, Span)>,
    /// The fields in order; one name may come many times.
    pub fields: Vec<Field>,
    /// True when a piece directly inside could not be read and has been reported, so that a field
    /// that seems to be missing may be there.
    pub incomplete: bool,
}

impl Message {
    /// A message without fields that stands nowhere.
    pub fn empty() -> Self {
        Self {
            span: Span::NONE,
            delimiters: None,
            fields: Vec::new(),
            incomplete: false,
        }
    }

    /// The fields of one plain name, in order.
    pub fn fields_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Field> {
        self.fields
            .iter()
            .filter(move |field| field.name.as_plain() == Some(name))
    }

    /// Where to point to speak of the message as a whole: its opening delimiter, or where it
    /// starts.
    pub fn head(&self) -> Span {
        self.delimiters
            .map_or(self.span.at_start(), |(open, _)| open)
    }
}

/// A field: a name, and a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// From the name to the end of the value.
    pub span: Span,
    /// The name.
    pub name: Name,
    /// The colon, if one is written.
    pub colon: Option<Span>,
    /// The value.
    pub value: Value,
    /// The `,` or `;` after the value, if one is written.
    pub separator: Option<Span>,
}

impl Field {
    /// A field that stands nowhere.
    pub fn new(name: NameKind, value: ValueKind) -> Self {
        Self {
            span: Span::NONE,
            name: Name {
                span: Span::NONE,
                kind: name,
            },
            colon: None,
            value: value.into(),
            separator: None,
        }
    }
}

/// A field's name as it is written, brackets included in the span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Where it is written.
    pub span: Span,
    /// What it names.
    pub kind: NameKind,
}

/// The three kinds of field names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NameKind {
    /// `name`.
    Plain(String),
    /// `[package.Message.ext]`, without inner whitespace.
    Extension(String),
    /// `[prefix/package.Message]`: the content of an `Any`.
    Any {
        /// What stands before the last `/`, usually `type.googleapis.com`.
        prefix: String,
        /// The message's full name.
        type_name: String,
    },
}

impl Name {
    /// The name of an ordinary field.
    pub fn as_plain(&self) -> Option<&str> {
        match &self.kind {
            NameKind::Plain(name) => Some(name),
            NameKind::Extension(_) | NameKind::Any { .. } => None,
        }
    }

    /// The name without brackets and URL prefix.
    pub fn as_str(&self) -> &str {
        match &self.kind {
            NameKind::Plain(name)
            | NameKind::Extension(name)
            | NameKind::Any {
                type_name: name, ..
            } => name,
        }
    }
}

impl std::fmt::Display for Name {
    /// Writes the name in its canonical spelling.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.kind {
            NameKind::Plain(name) => f.write_str(name),
            NameKind::Extension(name) => write!(f, "[{name}]"),
            NameKind::Any { prefix, type_name } => write!(f, "[{prefix}/{type_name}]"),
        }
    }
}

/// A value and where it is written.
pub type Value = Spanned<ValueKind>;

/// What a value can be before a schema says what it must be.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueKind {
    /// `{ .. }` or `< .. >`.
    Message(Message),
    /// `[ .. ]`; never nested.
    List(Vec<Value>),
    /// One or several adjacent string literals.
    String(StringValue),
    /// A number with an optional `-`.
    Number(Number),
    /// A word with an optional `-`: `true`, `inf`, an enum's value.
    Identifier {
        /// Whether a `-` stands before it.
        negative: bool,
        /// The word.
        name: String,
    },
    /// A value that could not be read. It has been reported: report nothing more about it.
    Invalid,
}

impl ValueKind {
    /// A string that stands nowhere.
    pub fn text(text: impl Into<String>) -> Self {
        Self::String(StringValue {
            bytes: text.into().into_bytes(),
            pieces: Vec::new(),
        })
    }

    /// A word, such as `true`.
    pub fn word(name: impl Into<String>) -> Self {
        Self::Identifier {
            negative: false,
            name: name.into(),
        }
    }

    /// A decimal number.
    pub fn integer(value: i64) -> Self {
        Self::Number(Number {
            negative: value < 0,
            literal: Literal::Integer {
                radix: Radix::Decimal,
                value: value.unsigned_abs(),
            },
        })
    }

    /// What it is, in words, for "expected .., found ..".
    pub fn describe(&self) -> String {
        match self {
            Self::Message(_) => "a message".to_owned(),
            Self::List(_) => "a list".to_owned(),
            Self::String(_) => "a string".to_owned(),
            Self::Number(number) => match number.literal {
                Literal::Integer { .. } | Literal::HugeInteger(_) => "an integer".to_owned(),
                Literal::Float(_) => "a floating-point number".to_owned(),
            },
            Self::Identifier { negative, name } => {
                format!("`{}{name}`", if *negative { "-" } else { "" })
            }
            Self::Invalid => "something unreadable".to_owned(),
        }
    }
}

/// A number as it is written.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Number {
    /// Whether a `-` stands before it.
    pub negative: bool,
    /// The number without its sign.
    pub literal: Literal,
}

/// A number without its sign.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Literal {
    /// An integer that fits in 64 bits.
    Integer {
        /// How it is written.
        radix: Radix,
        /// What it is.
        value: u64,
    },
    /// A decimal integer that does not fit in 64 bits, as the nearest double.
    HugeInteger(f64),
    /// A number with a point, an exponent or an `f`.
    Float(f64),
}

/// How an integer is written.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Radix {
    /// `0`, `10`.
    Decimal,
    /// `017`.
    Octal,
    /// `0x1F`.
    Hexadecimal,
}

/// The bytes that one or several adjacent string literals stand for.
///
/// Bytes and not text, because escapes can produce what is not UTF-8 and a `bytes` field may hold
/// that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StringValue {
    /// The bytes, escapes resolved, literals joined.
    pub bytes: Vec<u8>,
    /// The literals; none in a string that stands nowhere.
    pub pieces: Vec<StringPiece>,
}

/// One string literal of a [`StringValue`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StringPiece {
    /// The literal, quotes included.
    pub span: Span,
    /// Where its bytes begin in [`StringValue::bytes`].
    pub start: usize,
    /// For a literal with escapes: where in the file each of its bytes begins. Empty where the
    /// bytes are the text itself.
    pub offsets: Vec<u32>,
}

impl StringValue {
    /// The text, unless the bytes are not UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }

    /// Where in the file the bytes of `range` are written; an empty range at the end is just before
    /// the closing quote.
    pub fn span_of(&self, range: Range<usize>) -> Span {
        let Some(first) = self.pieces.first() else {
            return Span::NONE;
        };
        let start = self.start_of(range.start);
        let end = if range.is_empty() {
            start
        } else {
            self.end_of(range.end - 1).max(start)
        };
        Span {
            file: first.span.file,
            start,
            end,
        }
    }

    fn piece_of(&self, byte: usize) -> &StringPiece {
        let after = self.pieces.partition_point(|piece| piece.start <= byte);
        &self.pieces[after.saturating_sub(1)]
    }

    /// Where in the file the byte begins.
    fn start_of(&self, byte: usize) -> u32 {
        let piece = self.piece_of(byte);
        let within = byte - piece.start.min(byte);
        if piece.offsets.is_empty() {
            (piece.span.start + 1 + within as u32).min(piece.span.end)
        } else {
            piece
                .offsets
                .get(within)
                .copied()
                .unwrap_or(piece.span.end.saturating_sub(1))
        }
    }

    /// One past the last source byte of the decoded byte, which for an escape is where the next one
    /// begins.
    fn end_of(&self, byte: usize) -> u32 {
        let piece = self.piece_of(byte);
        if piece.offsets.is_empty() {
            return self.start_of(byte) + 1;
        }
        let own = self.start_of(byte);
        let within = byte - piece.start;
        piece.offsets[within..]
            .iter()
            .copied()
            .find(|&offset| offset > own)
            .unwrap_or(piece.span.end - 1)
    }
}
