//! The tree of a text-format file: fields and values with their spans, independent of any schema.
//!
//! The tree keeps everything that a formatter needs to write the file again (delimiters,
//! separators, string pieces, comments) and that a diagnostic needs to point at any part. Nesting
//! is at most [`crate::parse::MAX_DEPTH`], so code may recurse over it.

use std::ops::Range;

use crate::span::{FileId, Span, Spanned};

/// A parsed file: its fields and comments.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// File in the source map.
    pub id: FileId,
    /// Fields at the top level, as a message without delimiters.
    pub root: Message,
    /// Comments in order, each from its `#` to the end of its line.
    pub comments: Vec<Span>,
    /// Set if all delimiters match. Otherwise the nesting is a guess, and nothing should be
    /// concluded from the presence or absence of fields in a message.
    pub balanced: bool,
}

/// A message: the fields between `{` and `}`, between `<` and `>`, or of a whole file.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Location of the whole message, delimiters included.
    pub span: Span,
    /// Opening and closing delimiter; `None` at the top level of a file.
    pub delimiters: Option<(Span, Span)>,
    /// Fields in order. A name may occur many times.
    pub fields: Vec<Field>,
    /// Set if a piece directly inside could not be read, which has been reported. A field that
    /// seems to be missing may be there.
    pub incomplete: bool,
}

impl Message {
    /// Makes a message without fields or location.
    pub fn empty() -> Self {
        Self {
            span: Span::NONE,
            delimiters: None,
            fields: Vec::new(),
            incomplete: false,
        }
    }

    /// Iterates over the fields with a plain name, in order.
    pub fn fields_named(&self, name: &str) -> impl Iterator<Item = &Field> {
        self.fields
            .iter()
            .filter(move |field| field.name.as_plain() == Some(name))
    }

    /// Returns the location for diagnostics about the whole message: its opening delimiter, or its
    /// start.
    pub fn head(&self) -> Span {
        self.delimiters
            .map_or(self.span.at_start(), |(open, _)| open)
    }
}

/// A field: a name and a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Location from the name to the end of the value.
    pub span: Span,
    /// Name of the field, with its location.
    pub name: Name,
    /// Colon after the name, if there is one.
    pub colon: Option<Span>,
    /// Value of the field, with its location.
    pub value: Value,
    /// Separator `,` or `;` after the value, if there is one.
    pub separator: Option<Span>,
}

impl Field {
    /// Makes a field without a location. A [`Value`] keeps its own.
    pub fn new(name: NameKind, value: impl Into<Value>) -> Self {
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

/// The name of a field as it is written. The span includes brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Location in the file, brackets included.
    pub span: Span,
    /// Name without brackets, in parsed form.
    pub kind: NameKind,
}

/// The three kinds of field names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NameKind {
    /// A name without brackets: `max_queue_size`.
    Plain(String),
    /// An extension: `[package.Message.ext]`, without inner whitespace.
    Extension(String),
    /// The contents of an `Any`: `[prefix/package.Message]`.
    Any {
        /// Text before the last `/`, usually `type.googleapis.com`.
        prefix: String,
        /// Full name of the message.
        type_name: String,
    },
}

impl Name {
    /// Returns the name if it is a plain one.
    pub fn as_plain(&self) -> Option<&str> {
        match &self.kind {
            NameKind::Plain(name) => Some(name),
            NameKind::Extension(_) | NameKind::Any { .. } => None,
        }
    }

    /// Returns the name without brackets and URL prefix.
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

/// A value with its location.
pub type Value = Spanned<ValueKind>;

/// The syntactic form of a value, before a schema decides its type.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueKind {
    /// A message in delimiters: `{ .. }` or `< .. >`.
    Message(Message),
    /// A list of values: `[ .. ]`, never nested.
    List(Vec<Value>),
    /// A string: one or several adjacent literals.
    String(StringValue),
    /// A number with an optional `-`.
    Number(Number),
    /// A word with an optional `-`: `true`, `inf`, a value of an enum.
    Identifier {
        /// Set if a `-` precedes the word.
        negative: bool,
        /// The word itself, without its sign.
        name: String,
    },
    /// A value that could not be read. It has been reported, so report nothing more about it.
    Invalid,
}

impl ValueKind {
    /// Makes a string without a location.
    pub fn text(text: impl Into<String>) -> Self {
        Self::String(StringValue {
            bytes: text.into().into_bytes(),
            pieces: Vec::new(),
        })
    }

    /// Makes a word, such as `true`.
    pub fn word(name: impl Into<String>) -> Self {
        Self::Identifier {
            negative: false,
            name: name.into(),
        }
    }

    /// Makes a number in decimal notation.
    pub fn integer(value: i64) -> Self {
        Self::Number(Number {
            negative: value < 0,
            literal: Literal::Integer {
                radix: Radix::Decimal,
                value: value.unsigned_abs(),
            },
        })
    }

    /// Returns the word, if the value is one without a sign.
    pub fn as_word(&self) -> Option<&str> {
        match self {
            Self::Identifier { negative, name } if !negative => Some(name),
            _ => None,
        }
    }

    /// Describes the value for messages of the form "expected .., found ..".
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
    /// Set if a `-` precedes the number.
    pub negative: bool,
    /// Number without its sign, parsed.
    pub literal: Literal,
}

/// A number without its sign.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Literal {
    /// An integer that fits in 64 bits.
    Integer {
        /// Notation of the integer in the file.
        radix: Radix,
        /// Magnitude of the number, without its sign.
        value: u64,
    },
    /// A decimal integer that does not fit in 64 bits, as the nearest double.
    HugeInteger(f64),
    /// A number with a point, an exponent or an `f`.
    Float(f64),
}

/// The notation of an integer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Radix {
    /// Decimal notation, such as `0` and `10`.
    Decimal,
    /// Octal notation, such as `017`.
    Octal,
    /// Hexadecimal notation, such as `0x1F`.
    Hexadecimal,
}

/// The bytes of one or several adjacent string literals.
///
/// Bytes instead of text, because escapes can produce bytes that are not UTF-8, and a `bytes` field
/// may hold these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StringValue {
    /// Bytes with escapes resolved and literals joined.
    pub bytes: Vec<u8>,
    /// Literals; empty for a string without a location.
    pub pieces: Vec<StringPiece>,
}

/// One string literal of a [`StringValue`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StringPiece {
    /// Location in the file, quotes included.
    pub span: Span,
    /// Start of its bytes in [`StringValue::bytes`].
    pub start: usize,
    /// Location in the file of each byte, for a literal with escapes. Empty if the bytes are the
    /// text itself.
    pub offsets: Vec<u32>,
}

impl StringValue {
    /// Returns the text; `None` if the bytes are not UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }

    /// Returns the location of the bytes of `range`. An empty range at the end is just before the
    /// closing quote.
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

    /// Returns the location at which a byte begins.
    fn start_of(&self, byte: usize) -> u32 {
        let piece = self.piece_of(byte);
        let within = byte - piece.start.min(byte);
        if piece.offsets.is_empty() {
            (piece.span.start + 1 + within as u32).min(piece.span.end)
        } else {
            let offset = piece.offsets.get(within).copied();
            offset.unwrap_or(piece.span.end.saturating_sub(1))
        }
    }

    /// Returns the end of a byte's location. For an escape this is where the next byte begins.
    fn end_of(&self, byte: usize) -> u32 {
        let piece = self.piece_of(byte);
        if piece.offsets.is_empty() {
            return self.start_of(byte) + 1;
        }
        let own = self.start_of(byte);
        let within = byte - piece.start;
        let mut later = piece.offsets[within..].iter().copied();
        let next = later.find(|&offset| offset > own);
        next.unwrap_or(piece.span.end - 1)
    }
}
