//! Locations in source text: file, byte range, and their form for people.
//!
//! A [`Span`] is a half-open byte range in one file of a [`SourceMap`]. Lines and columns are
//! computed only for display. Both count from 1; columns count characters.

use std::fmt;
use std::ops::{Deref, Range};

/// The identifier of a file in a [`SourceMap`].
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(u32);

impl FileId {
    /// Marks elements that are in no file, such as a graph built by a program.
    pub const NONE: Self = Self(u32::MAX);

    /// Returns the position in the source map, in order of addition.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A half-open byte range in one file.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// File that contains the range.
    pub file: FileId,
    /// Offset of the first byte.
    pub start: u32,
    /// Offset after the last byte.
    pub end: u32,
}

impl Span {
    /// The span of elements that are in no file.
    pub const NONE: Self = Self {
        file: FileId::NONE,
        start: 0,
        end: 0,
    };

    /// Makes a span from byte offsets. Files have at most [`SourceMap::MAX_FILE_BYTES`], so offsets
    /// fit in 32 bits.
    pub fn new(file: FileId, range: Range<usize>) -> Self {
        Self {
            file,
            start: range.start as u32,
            end: range.end as u32,
        }
    }

    /// Returns `true` if the span is in no file.
    pub fn is_none(self) -> bool {
        self.file == FileId::NONE
    }

    /// Returns the byte range, to slice the file's text.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Returns the length in bytes.
    pub fn len(self) -> usize {
        self.range().len()
    }

    /// Returns `true` if the span covers no byte, as between two characters.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Returns `true` if `other` lies inside this span.
    pub fn contains(self, other: Self) -> bool {
        self.file == other.file && self.start <= other.start && other.end <= self.end
    }

    /// Returns the smallest span that covers both. Both must be in the same file.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        Self {
            file: self.file,
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }

    /// Returns the empty span at this span's start.
    #[must_use]
    pub fn at_start(self) -> Self {
        Self {
            end: self.start,
            ..self
        }
    }

    /// Returns the empty span at this span's end.
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

/// A value with its location.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spanned<T> {
    /// Value, to which a [`Spanned`] dereferences.
    pub value: T,
    /// Location in a file; [`Span::NONE`] for a value made by a program.
    pub span: Span,
}

impl<T> Spanned<T> {
    /// Makes a value with a location.
    pub fn new(value: T, span: Span) -> Self {
        Self { value, span }
    }

    /// Applies `f` to the value and keeps the location.
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

/// A line and a column. Both count from 1; the column counts characters.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineCol {
    /// Line in the file, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for LineCol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A file of a [`SourceMap`].
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    text: String,
    /// Offsets of line starts, to convert byte offsets to lines and columns. Lines end with `\n`.
    lines: Vec<u32>,
}

impl Source {
    /// Returns the name for messages, usually a path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the whole text of the file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the line of a byte offset, from 1.
    pub fn line(&self, offset: usize) -> usize {
        self.lines
            .partition_point(|&start| start as usize <= offset)
    }

    /// Returns the line and column of a byte offset.
    pub fn line_col(&self, offset: usize) -> LineCol {
        let offset = offset.min(self.text.len());
        let line = self.line(offset);
        let before = &self.text.as_bytes()[self.lines[line - 1] as usize..offset];
        // A character counts at its first byte, so an offset inside one is harmless. A byte-order
        // mark does not count.
        let characters = before.iter().filter(|&&byte| byte & 0xC0 != 0x80).count();
        let mark = usize::from(line == 1 && before.starts_with("\u{FEFF}".as_bytes()));
        LineCol {
            line,
            column: characters - mark + 1,
        }
    }
}

/// The files that spans refer to: graph files, embedded subgraphs, configuration.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    sources: Vec<Source>,
}

impl SourceMap {
    /// Maximum size of a text in bytes. It bounds memory and lets a span consist of two 32-bit
    /// offsets.
    pub const MAX_FILE_BYTES: usize = 64 << 20;

    /// Makes a map without files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file. The name is only shown in messages and need not be unique.
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

    /// Returns a file; `None` for [`FileId::NONE`] or a file of another map.
    pub fn get(&self, file: FileId) -> Option<&Source> {
        self.sources.get(file.index())
    }

    /// Returns the text of a file; empty if the file is not in the map.
    pub fn text(&self, file: FileId) -> &str {
        self.get(file).map_or("", Source::text)
    }

    /// Returns the text that a span covers.
    pub fn slice(&self, span: Span) -> &str {
        self.text(span.file).get(span.range()).unwrap_or("")
    }

    /// Returns the start of a span as `file:line:column`; `None` for a span in no file.
    pub fn locate(&self, span: Span) -> Option<String> {
        let source = self.get(span.file)?;
        Some(format!(
            "{}:{}",
            source.name,
            source.line_col(span.start as usize)
        ))
    }
}
