//! Repair of unbalanced delimiters in a damaged text.
//!
//! Without this, error recovery would swallow everything up to the end of the file. Unbalanced
//! delimiters are reported here, with both locations. The repaired text keeps the offset of every
//! byte: an extra delimiter becomes a space, and delimiters that are open at the end of the file
//! are closed after it. The depth is limited, too, so that the parser may recurse.

use std::borrow::Cow;

use pest::Parser;
use pest::iterators::Pair;

use crate::codes::syntax;
use crate::diag::{Diagnostic, Findings};
use crate::span::{FileId, Span};
use crate::text_format::{MAX_DEPTH, Rule, TextFormat};

/// A text with matching delimiters.
pub(crate) struct BalancedText<'t> {
    /// The file's own text, unless it was repaired.
    pub(crate) text: Cow<'t, str>,
    /// Reports of the delimiters that do not match.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Set if all delimiters matched without repair.
    pub(crate) balanced: bool,
}

/// An opening delimiter without its counterpart so far.
struct Open {
    byte: u8,
    at: usize,
    line: TextLine,
    /// First opening delimiter inside that is not indented deeper. It was probably meant to be
    /// outside.
    outdented: Option<usize>,
    /// A closing delimiter of the wrong kind, found directly inside.
    wrong_close: Option<usize>,
}

/// The extent of a line, and its indentation.
#[derive(Copy, Clone)]
struct TextLine {
    start: usize,
    end: usize,
    /// Number of bytes of whitespace at its start.
    indent: usize,
}

/// A closing delimiter indented like an outer opening delimiter and not like its own.
struct Suspect {
    open: usize,
    close: usize,
    meant: usize,
}

struct Matcher<'t> {
    file: FileId,
    text: &'t str,
    line: TextLine,
    open: Vec<Open>,
    suspects: Vec<Suspect>,
    /// Offsets of delimiters to replace by spaces.
    blanked: Vec<usize>,
    diagnostics: Findings,
    /// Set if a delimiter is in a string or comment that does not end, so that the balance proves
    /// nothing.
    swallowed: bool,
    /// Set if a comment of another language continues to the end of the file.
    in_comment: bool,
}

/// Makes the delimiters of `text` match. Fails if they are nested too deeply.
pub(crate) fn balance(file: FileId, text: &str) -> Result<BalancedText<'_>, Box<Diagnostic>> {
    let mut matcher = Matcher {
        file,
        text,
        line: TextLine {
            start: 0,
            end: 0,
            indent: 0,
        },
        open: Vec::new(),
        suspects: Vec::new(),
        blanked: Vec::new(),
        diagnostics: Findings::default(),
        swallowed: false,
        in_comment: false,
    };
    let found = TextFormat::parse(Rule::delimiters, text).into_iter();
    for pair in found.flatten().flat_map(Pair::into_inner) {
        let at = pair.as_span().start();
        let written = pair.as_str();
        match pair.as_rule() {
            Rule::opening if matcher.open.len() == MAX_DEPTH => {
                return Err(Box::new(matcher.too_deep(at)));
            }
            Rule::opening => matcher.open(at),
            Rule::closing => matcher.close(at),
            Rule::unterminated => matcher.swallow(written),
            Rule::foreign_comment if !is_closed(written) => {
                matcher.swallow(written);
                matcher.in_comment = true;
            }
            _ => {}
        }
    }
    matcher.report_open();
    Ok(matcher.finish())
}

/// Returns `true` if a comment of another language ends.
fn is_closed(comment: &str) -> bool {
    comment.starts_with("//") || comment[2..].ends_with("*/")
}

impl<'t> Matcher<'t> {
    fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.file, start..end)
    }

    fn byte_span(&self, at: usize) -> Span {
        self.span(at, at + 1)
    }

    fn swallow(&mut self, written: &str) {
        self.swallowed |= written.contains(['{', '}', '<', '>', '[', ']']);
    }

    /// Moves to the line of `at`.
    fn go_to(&mut self, at: usize) {
        if at < self.line.end {
            return;
        }
        let start = self.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let line = &self.text[start..];
        let length = line.find('\n').unwrap_or(line.len());
        let content = line.trim_start_matches([' ', '\t', '\r']);
        self.line = TextLine {
            start,
            end: start + length,
            indent: line.len() - content.len(),
        };
    }

    fn open(&mut self, at: usize) {
        self.go_to(at);
        if let Some(outer) = self.open.last_mut() {
            let deeper =
                self.line.indent > outer.line.indent || self.line.start == outer.line.start;
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
        self.go_to(at);
        let wanted = opener(self.text.as_bytes()[at]);
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
            let (found, wanted) = (&self.text[at..=at], closer(unclosed.byte));
            let closed = self.byte_span(self.open[position].at);
            let missing = format!("`{wanted}` is missing before this `{found}`");
            let diagnostic = self
                .unclosed(unclosed.at)
                .also(closed, format!("this is what `{found}` closes"))
                .also(self.byte_span(at), missing);
            self.diagnostics.push(diagnostic);
        }
        if let Some(open) = self.open.pop() {
            if let Some(wrong) = open.wrong_close {
                self.report_unmatched(wrong);
            }
            self.suspect(&open, at);
        }
    }

    /// Records a pair whose indentation suggests that the closing delimiter belongs to an outer
    /// one.
    fn suspect(&mut self, open: &Open, close: usize) {
        let first_on_line = self.line.indent == close - self.line.start;
        if !first_on_line
            || open.line.start == self.line.start
            || open.line.indent == self.line.indent
        {
            return;
        }
        let mut outer = self.open.iter().rev();
        let meant = outer.find(|outer| outer.line.indent == self.line.indent);
        self.suspects.extend(meant.map(|meant| Suspect {
            open: open.at,
            close,
            meant: meant.at,
        }));
    }

    fn report_unmatched(&mut self, at: usize) {
        let message = format!("unmatched `{}`", &self.text[at..=at]);
        let missing = char::from(opener(self.text.as_bytes()[at]));
        let place = self.byte_span(at);
        let diagnostic = Diagnostic::error(&syntax::UNMATCHED_DELIMITER, place, message)
            .label("closes nothing")
            .hint(format!(
                "remove it, or add the missing `{missing}` before it"
            ));
        self.diagnostics.push(diagnostic);
    }

    fn unclosed(&self, at: usize) -> Diagnostic {
        let message = format!("unclosed `{}`", &self.text[at..=at]);
        Diagnostic::error(&syntax::UNCLOSED_DELIMITER, self.byte_span(at), message)
            .label("opened here")
    }

    /// Reports delimiters that are open at the end of the file.
    fn report_open(&mut self) {
        for open in &self.open {
            let mut suspects = self.suspects.iter();
            let suspect = suspects.find(|suspect| suspect.meant == open.at);
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
        let (wanted, place) = (closer(open.byte), self.byte_span(wrong));
        let found = &self.text[wrong..=wrong];
        self.unclosed(open.at)
            .also(place, format!("expected `{wanted}`, found `{found}`"))
            .fix(format!("write `{wanted}`"), place, wanted.to_string())
    }

    fn closed_by_another(&self, open: &Open, suspect: &Suspect) -> Diagnostic {
        let wanted = closer(self.text.as_bytes()[suspect.open]);
        let indented = format!("the `{wanted}` below is indented like this");
        let missing = format!("`{wanted}` is missing before this line");
        self.unclosed(suspect.open)
            .also(self.byte_span(open.at), indented)
            .also(self.byte_span(suspect.close), missing)
    }

    fn too_deep(&self, at: usize) -> Diagnostic {
        let outermost = self.open.first().map_or(at, |open| open.at);
        let message = format!("messages are nested more than {MAX_DEPTH} deep");
        Diagnostic::error(&syntax::TOO_DEEP, self.byte_span(at), message)
            .label("one too many")
            .also(self.byte_span(outermost), "the outermost is opened here")
    }

    fn finish(self) -> BalancedText<'t> {
        let balanced = self.blanked.is_empty() && self.open.is_empty();
        let text = if balanced {
            Cow::Borrowed(self.text)
        } else {
            let mut bytes = self.text.as_bytes().to_vec();
            for at in self.blanked {
                bytes[at] = b' ';
            }
            // On its own line, because the last line may be a comment or an unterminated string.
            bytes.extend_from_slice(if self.in_comment { b"*/" } else { b"\n" });
            bytes.extend(self.open.iter().rev().map(|open| closer(open.byte) as u8));
            Cow::Owned(String::from_utf8(bytes).expect("delimiters are single ASCII bytes"))
        };
        let diagnostics = if self.swallowed {
            Vec::new()
        } else {
            self.diagnostics.into_vec()
        };
        BalancedText {
            text,
            diagnostics,
            balanced,
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

fn opener(close: u8) -> u8 {
    match close {
        b'}' => b'{',
        b'>' => b'<',
        _ => b'[',
    }
}
