//! The pass before the parser: finds comments and makes delimiters match.
//!
//! The parser needs matching delimiters, because its recovery would otherwise swallow the rest of a message to the end of
//! the file. This pass counts them, reports those without a counterpart itself, with both places, and hands on a text of
//! which every byte keeps its offset: a delimiter without a counterpart becomes a space, and those that the end of the
//! file leaves open are closed behind it. It also bounds the depth, so that the parser may recurse.
//!
//! Both see strings and comments alike: what these are is in [`crate::lexis`].

use std::borrow::Cow;

use crate::codes::syntax;
use crate::diag::{Diagnostic, Findings};
use crate::lexis;
use crate::parse::MAX_DEPTH;
use crate::span::{FileId, Span};

/// What the pass has found.
pub(crate) struct Scan<'t> {
    /// The text with matching delimiters: the file's own unless something was wrong.
    pub(crate) text: Cow<'t, str>,
    /// The comments.
    pub(crate) comments: Vec<Span>,
    /// Delimiters without a counterpart, or a depth beyond the limit.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Whether all delimiters matched.
    pub(crate) balanced: bool,
    /// Whether the nesting is so deep that the text must not be parsed.
    pub(crate) too_deep: bool,
}

/// An opening delimiter that waits for its counterpart.
struct Open {
    byte: u8,
    at: usize,
    line: Line,
    /// The first opening delimiter inside that is indented no deeper: it was probably meant to stand outside.
    outdented: Option<usize>,
    /// A closing delimiter of the wrong kind that was met directly inside.
    wrong_close: Option<usize>,
}

/// The line that the scanner is on.
#[derive(Copy, Clone)]
struct Line {
    number: usize,
    /// Bytes of whitespace at its start; none while only whitespace was met.
    indent: Option<usize>,
    start: usize,
}

/// A closing delimiter that is indented like an outer opening one, and not like the one it closes.
struct Suspect {
    open: usize,
    close: usize,
    meant: usize,
}

struct Scanner<'t> {
    file: FileId,
    text: &'t str,
    line: Line,
    open: Vec<Open>,
    suspects: Vec<Suspect>,
    comments: Vec<Span>,
    /// Offsets of delimiters to blank out.
    blanked: Vec<usize>,
    diagnostics: Findings,
    /// Whether a delimiter stands in a string or comment that does not end: then counting proves nothing.
    swallowed: bool,
    /// Whether a comment of another language goes to the end of the file.
    in_comment: bool,
}

/// Scans `text`.
pub(crate) fn scan(file: FileId, text: &str) -> Scan<'_> {
    let line = Line {
        number: 0,
        indent: None,
        start: 0,
    };
    let mut scanner = Scanner {
        file,
        text,
        line,
        open: Vec::new(),
        suspects: Vec::new(),
        comments: Vec::new(),
        blanked: Vec::new(),
        diagnostics: Findings::default(),
        swallowed: false,
        in_comment: false,
    };
    let too_deep = scanner.run();
    if let Some(at) = too_deep {
        scanner.report_depth(at);
    } else {
        scanner.report_open();
    }
    scanner.finish(too_deep.is_some())
}

impl<'t> Scanner<'t> {
    /// Scans to the end, or to the delimiter that goes too deep.
    fn run(&mut self) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if self.line.indent.is_none() && !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                self.line.indent = Some(at - self.line.start);
            }
            at = match byte {
                b'\n' => {
                    self.line = Line {
                        number: self.line.number + 1,
                        indent: None,
                        start: at + 1,
                    };
                    at + 1
                }
                b'#' => {
                    let end = lexis::line_end(self.text, at);
                    let text_end = if bytes[..end].ends_with(b"\r") {
                        end - 1
                    } else {
                        end
                    };
                    self.comments.push(self.span(at, text_end));
                    end
                }
                b'"' | b'\'' => self.string(at),
                b'/' => self.slash(at),
                b'{' | b'<' | b'[' => {
                    if self.open.len() == MAX_DEPTH {
                        return Some(at);
                    }
                    self.open(at);
                    at + 1
                }
                b'}' | b'>' | b']' => {
                    self.close(at);
                    at + 1
                }
                _ => at + 1,
            };
        }
        None
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.file, start..end)
    }

    fn byte_span(&self, at: usize) -> Span {
        self.span(at, at + 1)
    }

    /// Skips the string that begins at `at`; one that does not end on its line goes to the end of the line.
    fn string(&mut self, at: usize) -> usize {
        lexis::string_end(self.text, at).unwrap_or_else(|| {
            let end = lexis::line_end(self.text, at);
            self.swallow(at, end);
            end
        })
    }

    /// Skips a comment of another language, if one begins at `at`.
    fn slash(&mut self, at: usize) -> usize {
        let Some(comment) = lexis::foreign_comment(self.text, at) else {
            return at + 1;
        };
        if comment.closed {
            return self.newlines(at, comment.end);
        }
        self.swallow(at, comment.end);
        self.in_comment = true;
        comment.end
    }

    /// Counts the lines that end between the two offsets and gives the second.
    fn newlines(&mut self, start: usize, end: usize) -> usize {
        if let Some(last) = self.text[start..end].rfind('\n') {
            let number = self.line.number + self.text[start..end].matches('\n').count();
            self.line = Line {
                number,
                indent: None,
                start: start + last + 1,
            };
        }
        end
    }

    fn swallow(&mut self, start: usize, end: usize) {
        self.swallowed |= self.text[start..end].contains(['{', '}', '<', '>', '[', ']']);
    }

    fn open(&mut self, at: usize) {
        if let Some(outer) = self.open.last_mut() {
            let deeper =
                self.line.indent > outer.line.indent || self.line.number == outer.line.number;
            if !deeper && outer.outdented.is_none() {
                outer.outdented = Some(at);
            }
        }
        let byte = self.text.as_bytes()[at];
        self.open.push(Open {
            byte,
            at,
            line: self.line,
            outdented: None,
            wrong_close: None,
        });
    }

    fn close(&mut self, at: usize) {
        let wanted = match self.text.as_bytes()[at] {
            b'}' => b'{',
            b'>' => b'<',
            _ => b'[',
        };
        let Some(position) = self.open.iter().rposition(|open| open.byte == wanted) else {
            self.blanked.push(at);
            match self.open.last_mut() {
                Some(open) if open.wrong_close.is_none() => open.wrong_close = Some(at),
                _ => self.report_unmatched(at),
            }
            return;
        };
        for unclosed in self.open.drain(position + 1..).collect::<Vec<_>>() {
            self.blanked.push(unclosed.at);
            let found = &self.text[at..=at];
            let diagnostic = self
                .unclosed(unclosed.at)
                .also(
                    self.byte_span(self.open[position].at),
                    format!("this is what `{found}` closes"),
                )
                .also(
                    self.byte_span(at),
                    format!(
                        "`{}` is missing before this `{found}`",
                        closer(unclosed.byte)
                    ),
                );
            self.diagnostics.push(diagnostic);
        }
        if let Some(open) = self.open.pop() {
            if let Some(wrong) = open.wrong_close {
                self.report_unmatched(wrong);
            }
            self.suspect(&open, at);
        }
    }

    /// Remembers the pair if its indentation tells that the closing delimiter was meant for an outer one.
    fn suspect(&mut self, open: &Open, close: usize) {
        let first_on_line = self.line.indent == Some(close - self.line.start);
        if !first_on_line
            || open.line.number == self.line.number
            || open.line.indent == self.line.indent
        {
            return;
        }
        if let Some(meant) = self
            .open
            .iter()
            .rev()
            .find(|outer| outer.line.indent == self.line.indent)
        {
            self.suspects.push(Suspect {
                open: open.at,
                close,
                meant: meant.at,
            });
        }
    }

    fn report_unmatched(&mut self, at: usize) {
        let found = &self.text[at..=at];
        let diagnostic = Diagnostic::error(
            &syntax::UNMATCHED_DELIMITER,
            self.byte_span(at),
            format!("unmatched `{found}`"),
        )
        .label("closes nothing")
        .hint(format!(
            "remove it, or add the missing `{}` before it",
            opener(found)
        ));
        self.diagnostics.push(diagnostic);
    }

    fn unclosed(&self, at: usize) -> Diagnostic {
        let byte = &self.text[at..=at];
        Diagnostic::error(
            &syntax::UNCLOSED_DELIMITER,
            self.byte_span(at),
            format!("unclosed `{byte}`"),
        )
        .label("opened here")
    }

    /// Reports what the end of the file has left open.
    fn report_open(&mut self) {
        for open in &self.open {
            let suspect = self
                .suspects
                .iter()
                .find(|suspect| suspect.meant == open.at);
            let earlier =
                suspect.filter(|it| open.outdented.is_none_or(|outdented| it.close < outdented));
            let diagnostic = match (open.wrong_close, earlier, open.outdented) {
                (Some(wrong), ..) => self.closed_wrongly(open, wrong),
                (None, Some(suspect), _) => self.closed_by_another(open, suspect),
                (None, None, Some(outdented)) => self
                    .unclosed(open.at)
                    .also(
                        self.byte_span(outdented),
                        "by its indentation, this stands outside already",
                    )
                    .hint(format!("add `{}` before it", closer(open.byte))),
                (None, None, None) => {
                    let end = self.text.trim_end().len();
                    let message = format!("the file ends without `{}`", closer(open.byte));
                    self.unclosed(open.at).also(self.span(end, end), message)
                }
            };
            self.diagnostics.push(diagnostic);
        }
    }

    fn closed_wrongly(&self, open: &Open, wrong: usize) -> Diagnostic {
        let wanted = closer(open.byte);
        let found = &self.text[wrong..=wrong];
        self.unclosed(open.at)
            .also(
                self.byte_span(wrong),
                format!("expected `{wanted}`, found `{found}`"),
            )
            .fix(
                format!("write `{wanted}`"),
                self.byte_span(wrong),
                wanted.to_string(),
            )
    }

    fn closed_by_another(&self, open: &Open, suspect: &Suspect) -> Diagnostic {
        let wanted = closer(self.text.as_bytes()[suspect.open]);
        self.unclosed(suspect.open)
            .also(
                self.byte_span(open.at),
                format!("the `{wanted}` below is indented like this"),
            )
            .also(
                self.byte_span(suspect.close),
                format!("`{wanted}` is missing before this line"),
            )
    }

    fn report_depth(&mut self, at: usize) {
        self.diagnostics.clear();
        let outermost = self.open.first().map_or(at, |open| open.at);
        let message = format!("messages are nested more than {MAX_DEPTH} deep");
        let diagnostic = Diagnostic::error(&syntax::TOO_DEEP, self.byte_span(at), message)
            .label("one too many")
            .also(self.byte_span(outermost), "the outermost is opened here");
        self.diagnostics.push(diagnostic);
    }

    fn finish(self, too_deep: bool) -> Scan<'t> {
        let balanced = self.blanked.is_empty() && self.open.is_empty() && !too_deep;
        let text = if balanced || too_deep {
            Cow::Borrowed(self.text)
        } else {
            let mut bytes = self.text.as_bytes().to_vec();
            for at in self.blanked {
                bytes[at] = b' ';
            }
            // On a line of its own, because the last one may be a comment or a string without an end.
            bytes.extend_from_slice(if self.in_comment { b"*/" } else { b"\n" });
            bytes.extend(self.open.iter().rev().map(|open| closer(open.byte) as u8));
            Cow::Owned(String::from_utf8(bytes).expect("delimiters are single ASCII bytes"))
        };
        let diagnostics = if self.swallowed && !too_deep {
            Vec::new()
        } else {
            self.diagnostics.into_vec()
        };
        Scan {
            text,
            comments: self.comments,
            diagnostics,
            balanced,
            too_deep,
        }
    }
}

fn closer(byte: u8) -> char {
    match byte {
        b'{' => '}',
        b'<' => '>',
        _ => ']',
    }
}

fn opener(close: &str) -> char {
    match close {
        "}" => '{',
        ">" => '<',
        _ => '[',
    }
}
