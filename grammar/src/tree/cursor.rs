//! The place in the text that is read, and the tokens that can stand there.

use std::ops::Range;

use crate::lexis;

/// Reads tokens; each method takes what it is called after, or nothing.
pub(super) struct Cursor<'t> {
    text: &'t str,
    pub(super) at: usize,
}

/// A string literal.
pub(super) struct Quoted {
    pub(super) range: Range<usize>,
    /// Whether it ends on its line; one that does not goes to the end of the line.
    pub(super) closed: bool,
}

impl<'t> Cursor<'t> {
    /// A cursor behind what the first token may be preceded by.
    pub(super) fn new(text: &'t str) -> Self {
        let mut cursor = Self { text, at: 0 };
        cursor.space();
        if cursor.text[cursor.at..].starts_with('\u{FEFF}') {
            cursor.at += '\u{FEFF}'.len_utf8();
            cursor.space();
        }
        cursor
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The text of a range.
    pub(super) fn slice(&self, range: Range<usize>) -> &'t str {
        &self.text[range]
    }

    /// Takes whitespace and comments.
    pub(super) fn space(&mut self) {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            if lexis::is_space(byte) {
                self.at += 1;
            } else if byte == b'#' {
                self.at = lexis::line_end(self.text, self.at);
            } else {
                break;
            }
        }
    }

    /// Takes one byte, which is ASCII, and the space after it.
    pub(super) fn take(&mut self, wanted: u8) -> Option<Range<usize>> {
        if self.peek() != Some(wanted) {
            return None;
        }
        let start = self.at;
        self.at += 1;
        self.space();
        Some(start..start + 1)
    }

    /// Where the closing delimiter ends that is next.
    pub(super) fn end_of_delimiter(&self) -> usize {
        self.text.len().min(self.at + 1)
    }

    /// Takes bytes as long as they satisfy the condition.
    fn take_while(&mut self, is_part: impl Fn(u8) -> bool) -> Range<usize> {
        let start = self.at;
        let rest = &self.text.as_bytes()[start..];
        self.at += rest
            .iter()
            .position(|&byte| !is_part(byte))
            .unwrap_or(rest.len());
        start..self.at
    }

    /// `[A-Za-z_][A-Za-z0-9_]*`.
    pub(super) fn identifier(&mut self) -> Option<Range<usize>> {
        let first = self.peek()?;
        (first.is_ascii_alphabetic() || first == b'_')
            .then(|| self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
    }

    /// All that cannot be separated from the number that begins here, so that `10foo` is one mistake.
    pub(super) fn digits(&mut self) -> Option<Range<usize>> {
        let bytes = self.text.as_bytes();
        let first = self.at + usize::from(self.peek() == Some(b'.'));
        bytes.get(first).filter(|byte| byte.is_ascii_digit())?;
        let mut end = first + 1;
        loop {
            end += match (bytes.get(end), bytes.get(end + 1)) {
                (Some(b'e' | b'E'), Some(b'+' | b'-')) => 2,
                (Some(byte), _) if byte.is_ascii_alphanumeric() => 1,
                (Some(b'_' | b'.'), _) => 1,
                _ => break,
            };
        }
        let start = std::mem::replace(&mut self.at, end);
        Some(start..end)
    }

    /// A string literal.
    pub(super) fn quoted(&mut self) -> Option<Quoted> {
        let quote = self.peek()?;
        matches!(quote, b'"' | b'\'').then(|| {
            let start = self.at;
            let end = lexis::string_end(self.text, start);
            self.at = end.unwrap_or_else(|| lexis::line_end(self.text, start));
            Quoted {
                range: start..self.at,
                closed: end.is_some(),
            }
        })
    }

    /// The parts of a name in brackets, whitespace and comments between them left out, if there is nothing else in the
    /// brackets, and the range of all.
    pub(super) fn bracketed(&mut self) -> Option<(Vec<Range<usize>>, Range<usize>)> {
        let start = self.at;
        self.take(b'[')?;
        let mut parts = Vec::new();
        while let Some(part) = self.url_part() {
            parts.push(part);
            self.space();
        }
        if self.peek() != Some(b']') {
            self.at = start;
            return None;
        }
        self.at += 1;
        Some((parts, start..self.at))
    }

    /// Characters of type URLs and extension names, up to a comment of another language.
    fn url_part(&mut self) -> Option<Range<usize>> {
        let all = self
            .take_while(|byte| byte.is_ascii_alphanumeric() || b"./_-~!$&()*+,;=%".contains(&byte));
        let written = &self.text[all.clone()];
        let comment = [written.find("//"), written.find("/*")];
        let length = comment.into_iter().flatten().min();
        self.at = all.start + length.unwrap_or(all.len());
        (self.at > all.start).then_some(all.start..self.at)
    }

    /// A comment of another language.
    pub(super) fn foreign_comment(&mut self) -> Option<Range<usize>> {
        let comment = lexis::foreign_comment(self.text, self.at)?;
        let start = std::mem::replace(&mut self.at, comment.end);
        Some(start..comment.end)
    }

    /// What fits nowhere: to the end of the line, a comment or the next delimiter.
    pub(super) fn junk(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        while let Some(byte) = self.peek() {
            match byte {
                b'\n' | b'#' | b'{' | b'}' | b'<' | b'>' | b'[' | b']' => break,
                b'/' if lexis::foreign_comment(self.text, self.at).is_some() => break,
                b'"' | b'\'' => _ = self.quoted(),
                _ => self.at += 1,
            }
        }
        (self.at > start).then_some(start..self.at)
    }
}
