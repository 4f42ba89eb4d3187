//! Rendering of diagnostics: for people with the source line and a caret, for programs as JSON.
//!
//! Both forms contain the same facts. The human form is for a terminal and should not be parsed.

use std::collections::BTreeMap;
use std::ops::Range;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{Annotation, AnnotationKind, Element, Group, Level, Patch, Snippet};
use serde::Serialize;

use crate::diag::{Diagnostic, Hint, Label, Severity};
use crate::span::{FileId, Source, SourceMap, Span};

/// Maximum length of lines that are shown whole.
const MAX_LINE_BYTES: usize = 240;

/// Length of the excerpt of a long line before and after the start of the mistake.
const EXCERPT_BYTES: usize = 60;

/// The coloring of the human form.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Color {
    /// ANSI colors, for a terminal.
    Ansi,
    /// Plain text, for files and pipes.
    Plain,
}

/// Renders diagnostics for people, separated by empty lines. Ends with a line break.
pub fn human(sources: &SourceMap, diagnostics: &[Diagnostic], color: Color) -> String {
    let renderer = match color {
        Color::Ansi => annotate_snippets::Renderer::styled(),
        Color::Plain => annotate_snippets::Renderer::plain(),
    };
    let renderer = renderer.decor_style(DecorStyle::Ascii);
    let mut text = String::new();
    for diagnostic in diagnostics {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&renderer.render(&report(sources, diagnostic)));
        text.push('\n');
    }
    text
}

/// Counts errors and warnings in one line, such as `2 errors, 1 warning`; `None` if there are none.
pub fn summary(diagnostics: &[Diagnostic]) -> Option<String> {
    let errors = diagnostics.iter().filter(|it| it.is_error()).count();
    let warnings = diagnostics.len() - errors;
    let count = |count: usize, what: &str| match count {
        0 => None,
        1 => Some(format!("1 {what}")),
        _ => Some(format!("{count} {what}s")),
    };
    let parts = [count(errors, "error"), count(warnings, "warning")];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn report<'a>(sources: &'a SourceMap, diagnostic: &'a Diagnostic) -> Vec<Group<'a>> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level
        .primary_title(&diagnostic.message)
        .id(diagnostic.code.to_string());
    let mut group = Group::with_title(title).elements(snippets(sources, diagnostic));
    let mut patched = Vec::new();
    for hint in &diagnostic.hints {
        match patch(sources, hint) {
            Some(snippet) => patched.push(Level::HELP.secondary_title(&hint.text).element(snippet)),
            None => group = group.element(Level::HELP.message(&hint.text)),
        }
    }
    std::iter::once(group).chain(patched).collect()
}

/// Makes one snippet per file, starting with that of the primary label.
fn snippets<'a>(sources: &'a SourceMap, diagnostic: &'a Diagnostic) -> Vec<Element<'a>> {
    let mut files: BTreeMap<(bool, FileId), Vec<(AnnotationKind, &Label)>> = BTreeMap::new();
    let first = diagnostic.primary.span.file;
    let primary = std::iter::once((AnnotationKind::Primary, &diagnostic.primary));
    let secondary = diagnostic.secondary.iter();
    let secondary = secondary.map(|label| (AnnotationKind::Context, label));
    for (kind, label) in primary.chain(secondary) {
        let file = (label.span.file != first, label.span.file);
        files.entry(file).or_default().push((kind, label));
    }
    let mut elements = Vec::new();
    for ((_, file), labels) in files {
        let Some(source) = sources.get(file) else {
            continue;
        };
        let window = Window::around(source, labels.iter().map(|(_, label)| label.span));
        if window.has_long_line(source) {
            elements.extend(excerpt(source, &labels));
        } else {
            let labels = labels.into_iter();
            let annotations = labels.map(|(kind, label)| window.annotation(kind, label));
            let snippet = window.snippet(source).path(source.name());
            elements.push(snippet.annotations(annotations.collect::<Vec<_>>()).into());
        }
    }
    elements
}

/// Makes an excerpt around the first label, for lines that are too long to show.
fn excerpt<'a>(source: &'a Source, labels: &[(AnnotationKind, &'a Label)]) -> Vec<Element<'a>> {
    let Some((_, first)) = labels.first() else {
        return Vec::new();
    };
    let window = Window::excerpt(source, first.span);
    let inside = labels.iter().filter(|(_, label)| {
        let range = label.span.range();
        std::ptr::eq(*label, *first)
            || (window.range.start <= range.start && range.end <= window.range.end)
    });
    let annotations = inside.map(|&(kind, label)| window.annotation(kind, label));
    // The renderer would count columns from the start of the excerpt, so the note has the location.
    let place = source.line_col(first.span.range().start);
    let name = source.name();
    let note = format!("at {name}:{place}; only a part of the line is shown");
    let snippet = window
        .snippet(source)
        .annotations(annotations.collect::<Vec<_>>());
    vec![snippet.into(), Level::NOTE.message(note).into()]
}

/// Makes a patch of the hint's edits, if they are short enough to show.
fn patch<'a>(sources: &'a SourceMap, hint: &'a Hint) -> Option<Snippet<'a, Patch<'a>>> {
    let file = hint.edits.first()?.span.file;
    let source = sources.get(file)?;
    let window = Window::around(source, hint.edits.iter().map(|edit| edit.span));
    let mut edits = hint.edits.iter();
    let one_line = edits.all(|edit| edit.span.file == file && !edit.replacement.contains('\n'))
        && !source.text()[window.range.clone()].contains('\n')
        && window.range.len() <= MAX_LINE_BYTES;
    let edits = hint.edits.iter();
    let patches =
        edits.map(|edit| Patch::new(window.range_of(edit.span), edit.replacement.as_str()));
    one_line.then(|| {
        let snippet = window.snippet(source).path(source.name());
        snippet.patches(patches.collect::<Vec<_>>())
    })
}

/// The lines of a file that a snippet shows. The renderer gets only these, however long the file
/// is.
struct Window {
    /// Range of bytes in the file, without the end of the last line.
    range: Range<usize>,
    /// Number of the first line, from 1.
    line: usize,
}

impl Window {
    /// Makes a window of the lines that contain the spans.
    fn around(source: &Source, spans: impl Iterator<Item = Span> + Clone) -> Self {
        let text = source.text();
        let start = spans.clone().map(|span| span.range().start).min();
        let start = start.unwrap_or(0).min(text.len());
        let end = spans.map(|span| span.range().end).max();
        let end = end.unwrap_or(0).clamp(start, text.len());
        let bytes = text.as_bytes();
        let line_start = bytes[..start]
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |newline| newline + 1);
        let mut line_end = bytes[end..]
            .iter()
            .position(|&byte| byte == b'\n')
            .map_or(text.len(), |length| end + length);
        if bytes[end..line_end].ends_with(b"\r") {
            line_end -= 1;
        }
        Self {
            range: line_start..line_end,
            line: source.line(start),
        }
    }

    /// Makes a window of a part of one line, near the start of the span.
    fn excerpt(source: &Source, span: Span) -> Self {
        let line = Self::around(source, std::iter::once(span.at_start()));
        let text = source.text();
        let at = span.range().start.min(text.len());
        let start =
            text.floor_char_boundary(at.saturating_sub(EXCERPT_BYTES).max(line.range.start));
        let end = text.ceil_char_boundary((at + EXCERPT_BYTES).min(line.range.end));
        Self {
            range: start..end,
            line: line.line,
        }
    }

    fn has_long_line(&self, source: &Source) -> bool {
        source.text()[self.range.clone()]
            .split('\n')
            .any(|line| line.len() > MAX_LINE_BYTES)
    }

    fn range_of(&self, span: Span) -> Range<usize> {
        let within = |offset: u32| {
            (offset as usize).clamp(self.range.start, self.range.end) - self.range.start
        };
        within(span.start)..within(span.end)
    }

    fn annotation<'a>(&self, kind: AnnotationKind, label: &'a Label) -> Annotation<'a> {
        let annotation = kind.span(self.range_of(label.span));
        if label.text.is_empty() {
            annotation
        } else {
            annotation.label(&label.text)
        }
    }

    fn snippet<'a, T: Clone>(&self, source: &'a Source) -> Snippet<'a, T> {
        Snippet::source(&source.text()[self.range.clone()]).line_start(self.line)
    }
}

/// A diagnostic as JSON, with stable field names. Lines and columns count from 1, offsets in bytes
/// from 0.
#[derive(Clone, Debug, Serialize)]
pub struct Json<'a> {
    /// Code of the mistake, such as `GM0123`.
    pub code: String,
    /// Title of the code, in a few words.
    pub title: &'static str,
    /// Severity of the mistake: `error` or `warning`.
    pub severity: &'static str,
    /// Headline: one sentence, lower case, no full stop.
    pub message: &'a str,
    /// Primary location; absent if no file is concerned.
    pub place: Option<JsonPlace<'a>>,
    /// Other locations that explain the mistake.
    pub related: Vec<JsonPlace<'a>>,
    /// Advice, with edits where possible.
    pub hints: Vec<JsonHint<'a>>,
}

/// A location in a file with a short text about it.
#[derive(Clone, Debug, Serialize)]
pub struct JsonPlace<'a> {
    /// Name of the file as messages show it.
    pub file: &'a str,
    /// First line of the location, from 1.
    pub line: usize,
    /// First column in characters, from 1.
    pub column: usize,
    /// Last line of the location, from 1.
    pub end_line: usize,
    /// Column after the last character.
    pub end_column: usize,
    /// Offset of the first byte.
    pub start: usize,
    /// Offset after the last byte.
    pub end: usize,
    /// Text shown at the location; may be empty.
    pub label: &'a str,
}

/// Advice and the edits that carry it out.
#[derive(Clone, Debug, Serialize)]
pub struct JsonHint<'a> {
    /// Advice in words, complete without the edits.
    pub text: &'a str,
    /// Edits that carry it out, each with its `replacement`.
    pub edits: Vec<JsonEdit<'a>>,
}

/// One edit of a file.
#[derive(Clone, Debug, Serialize)]
pub struct JsonEdit<'a> {
    /// Location of the text to replace.
    #[serde(flatten)]
    pub place: JsonPlace<'a>,
    /// New text of the location.
    pub replacement: &'a str,
}

/// Converts a diagnostic to the form that is written as JSON.
pub fn json<'a>(sources: &'a SourceMap, diagnostic: &'a Diagnostic) -> Json<'a> {
    let hint = |hint: &'a Hint| JsonHint {
        text: &hint.text,
        edits: hint
            .edits
            .iter()
            .filter_map(|edit| {
                Some(JsonEdit {
                    place: place(sources, edit.span, "")?,
                    replacement: &edit.replacement,
                })
            })
            .collect(),
    };
    Json {
        code: diagnostic.code.to_string(),
        title: diagnostic.code.title,
        severity: diagnostic.severity.as_str(),
        message: &diagnostic.message,
        place: place(sources, diagnostic.primary.span, &diagnostic.primary.text),
        related: diagnostic
            .secondary
            .iter()
            .filter_map(|label| place(sources, label.span, &label.text))
            .collect(),
        hints: diagnostic.hints.iter().map(hint).collect(),
    }
}

fn place<'a>(sources: &'a SourceMap, span: Span, label: &'a str) -> Option<JsonPlace<'a>> {
    let source = sources.get(span.file)?;
    let (start, end) = (
        source.line_col(span.start as usize),
        source.line_col(span.end as usize),
    );
    Some(JsonPlace {
        file: source.name(),
        line: start.line,
        column: start.column,
        end_line: end.line,
        end_column: end.column,
        start: span.start as usize,
        end: span.end as usize,
        label,
    })
}
