//! Places in source text: which file, which bytes, and how to say that to a person.
//!
//! A [`Span`] is a half-open byte range in one file of a [`SourceMap`]. Lines and columns are
//! computed only when something is shown. Both are 1-based; columns count characters.

use std::fmt;
use std::ops::{Deref, Range};

/// Identifies a file of a [`SourceMap`].
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(u32);

impl FileId {
    /// Marks something that comes from no file, such as a graph that a program built.
    pub const NONE: Self = Self(u32::MAX);

    /// Position in the source map, in order of addition.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A half-open byte range in one file.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The span of something that no file contains.
    pub const NONE: Self = Self {
        file: FileId::NONE,
        start: 0,
        end: 0,
    };

    /// Makes a span from byte offsets; files are at most [`SourceMap::MAX_FILE_BYTES`] long, so
    /// offsets fit in 32 bits.
    pub fn new(file: FileId, range: Range<usize>) -> Self {
        Self {
            file,
            start: range.start as u32,
            end: range.end as u32,
        }
    }

    /// Tells whether the span points into no file.
    pub fn is_none(self) -> bool {
        self.file == FileId::NONE
    }

    /// The byte range.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Length in bytes.
    pub fn len(self) -> usize {
        self.range().len()
    }

    /// Tells whether the span covers no byte: it is a place between two characters.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Tells whether `other` lies inside this span.
    pub fn contains(self, other: Self) -> bool {
        self.file == other.file && self.start <= other.start && other.end <= self.end
    }

    /// The smallest span that covers both; both are in the same file.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        Self {
            file: self.file,
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }

    /// The empty span at this span's start.
    #[must_use]
    pub fn at_start(self) -> Self {
        Self {
            end: self.start,
            ..self
        }
    }

    /// The empty span at this span's end.
    #[must_use]
    pub fn at_end(self) -> Self {
        Self {
            start: self.end,
            ..self
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            f.write_str("-")
        } else {
            write!(f, "{}@{}..{}", self.file.0, self.start, self.end)
        }
    }
}

/// A value and where it was written.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Where it was written; [`Span::NONE`] for a value that a program made.
    pub span: Span,
}

impl<T> Spanned<T> {
    /// Pairs a value with its place.
    pub fn new(value: T, span: Span) -> Self {
        Self { value, span }
    }

    /// Applies `f` to the value and keeps the place.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Spanned<U> {
        Spanned {
            value: f(self.value),
            span: self.span,
        }
    }
}

impl<T> From<T> for Spanned<T> {
    fn from(value: T) -> Self {
        Self {
            value,
            span: Span::NONE,
        }
    }
}

impl<T> Deref for Spanned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: fmt::Display> fmt::Display for Spanned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// A line and column, both 1-based; the column counts characters.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineCol {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for LineCol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// One file of a [`SourceMap`].
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    text: String,
    /// Where lines start, to turn byte offsets into lines and columns; they end with `\n`.
    lines: Vec<u32>,
}

impl Source {
    /// The name that messages use, usually a path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The line, from 1, of a byte offset.
    pub fn line(&self, offset: usize) -> usize {
        self.lines
            .partition_point(|&start| start as usize <= offset)
    }

    /// Line and column of a byte offset.
    pub fn line_col(&self, offset: usize) -> LineCol {
        let offset = offset.min(self.text.len());
        let line = self.line(offset);
        let before = &self.text.as_bytes()[self.lines[line - 1] as usize..offset];
        // A character is counted at its first byte, so that an offset inside one does no harm; a
        // byte-order mark is no column.
        let characters = before.iter().filter(|&&byte| byte & 0xC0 != 0x80).count();
        let mark = usize::from(line == 1 && before.starts_with("\u{FEFF}".as_bytes()));
        LineCol {
            line,
            column: characters - mark + 1,
        }
    }
}

/// The files that spans point into: graph files, embedded subgraphs, configuration.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    sources: Vec<Source>,
}

impl SourceMap {
    /// The longest text that is parsed; it bounds memory and lets a span be two 32-bit offsets.
    pub const MAX_FILE_BYTES: usize = 64 << 20;

    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file. The name is what messages show; it is not read from and need not be unique.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> FileId {
        let text = text.into();
        let bytes = text.bytes().enumerate();
        let after_newlines = bytes.filter_map(|(i, byte)| (byte == b'\n').then_some(i as u32 + 1));
        let lines = std::iter::once(0).chain(after_newlines).collect();
        self.sources.push(Source {
            name: name.into(),
            text,
            lines,
        });
        FileId(self.sources.len() as u32 - 1)
    }

    /// The file, unless `file` is [`FileId::NONE`] or of another map.
    pub fn get(&self, file: FileId) -> Option<&Source> {
        self.sources.get(file.index())
    }

    /// The text of a file; empty for one that is not in the map.
    pub fn text(&self, file: FileId) -> &str {
        self.get(file).map_or("", Source::text)
    }

    /// The text that a span covers.
    pub fn slice(&self, span: Span) -> &str {
        self.text(span.file).get(span.range()).unwrap_or("")
    }

    /// Says where a span starts, as `file:line:column`; `None` for a span in no file.
    pub fn locate(&self, span: Span) -> Option<String> {
        let source = self.get(span.file)?;
        Some(format!(
            "{}:{}",
            source.name,
            source.line_col(span.start as usize)
        ))
    }
}
