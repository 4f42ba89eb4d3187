//! Diagnostics as data: mistakes in a user's file, their locations and remedies.
//!
//! Checks never throw diagnostics and never use bare strings. They collect them and go on, so that
//! all errors of a file are reported together. The same values serve the terminal, JSON output, the
//! reload API and editors; [`crate::render`] turns them into text. Headlines are lower case, put
//! names in backticks and say what was expected. Advice is a hint.

use std::fmt;

use crate::codes::{Code, syntax};
use crate::span::Span;

/// Maximum number of errors and warnings of one file that are listed.
pub const MAX_LISTED: usize = 100;

/// The severity of a diagnostic.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The file works, but probably not as intended.
    Warning,
    /// The file cannot be used.
    Error,
}

impl Severity {
    /// Returns the word for messages and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A location with a short text about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Location in a file, or [`Span::NONE`].
    pub span: Span,
    /// Text shown at the location; may be empty.
    pub text: String,
}

/// A replacement of a part of a file. An empty span inserts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Part of a file to replace.
    pub span: Span,
    /// New text of the part.
    pub replacement: String,
}

/// Advice, and the edits that carry it out if they are certain enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Advice in words, complete without the edits.
    pub text: String,
    /// Edits that carry it out; empty if a person has to decide.
    pub edits: Vec<Edit>,
}

/// A mistake in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Kind of mistake, with its explanation.
    pub code: &'static Code,
    /// Severity: the file is unusable, or probably not as intended.
    pub severity: Severity,
    /// Headline: one sentence, lower case, no full stop.
    pub message: String,
    /// Location of the mistake, with a text about it.
    pub primary: Label,
    /// Other locations that explain it, such as the first of two definitions.
    pub secondary: Vec<Label>,
    /// Advice for the user, in the order of display.
    pub hints: Vec<Hint>,
}

impl Diagnostic {
    /// Makes an error at `span`, without label and hints.
    pub fn error(code: &'static Code, span: Span, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Error, span, message.into())
    }

    /// Makes a warning at `span`, without label and hints.
    pub fn warning(code: &'static Code, span: Span, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Warning, span, message.into())
    }

    fn new(code: &'static Code, severity: Severity, span: Span, message: String) -> Self {
        let primary = Label {
            span,
            text: String::new(),
        };
        Self {
            code,
            severity,
            message,
            primary,
            secondary: Vec::new(),
            hints: Vec::new(),
        }
    }

    /// Sets the text shown at the primary location.
    #[must_use]
    pub fn label(mut self, text: impl Into<String>) -> Self {
        self.primary.text = text.into();
        self
    }

    /// Adds a secondary location with its text.
    #[must_use]
    pub fn also(mut self, span: Span, text: impl Into<String>) -> Self {
        self.secondary.push(Label {
            span,
            text: text.into(),
        });
        self
    }

    /// Adds advice without an edit.
    #[must_use]
    pub fn hint(self, text: impl Into<String>) -> Self {
        self.advise(text, None)
    }

    /// Adds advice that one edit carries out.
    #[must_use]
    pub fn fix(self, text: impl Into<String>, span: Span, replacement: impl Into<String>) -> Self {
        self.advise(text, Some((span, replacement.into())))
    }

    /// Adds advice and, if possible, the edit that carries it out: a location and its new text.
    #[must_use]
    pub fn advise(mut self, text: impl Into<String>, edit: Option<(Span, String)>) -> Self {
        let edit = edit.map(|(span, replacement)| Edit { span, replacement });
        self.hints.push(Hint {
            text: text.into(),
            edits: edit.into_iter().collect(),
        });
        self
    }

    /// Suggests the name that was probably meant and, if possible, the edit that writes it.
    #[must_use]
    pub fn did_you_mean(self, meant: &str, edit: Option<(Span, String)>) -> Self {
        self.advise(format!("did you mean `{meant}`?"), edit)
    }

    /// Returns `true` if the diagnostic makes the file unusable.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// The diagnostics of one phase. Their number is limited, because a file of 64 MiB can have as many
/// mistakes.
#[derive(Default)]
pub(crate) struct Findings {
    kept: Vec<Diagnostic>,
    errors: usize,
    warnings: usize,
}

impl Findings {
    /// Maximum number of errors and of warnings. They are counted separately, so that warnings
    /// cannot hide an error. It is far above [`MAX_LISTED`], because a phase reports some mistakes
    /// at the start of the file late.
    const MAX_KEPT: usize = 100 * MAX_LISTED;

    /// Adds a diagnostic, unless there are too many of its severity.
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        let count = match diagnostic.severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        if *count < Self::MAX_KEPT {
            *count += 1;
            self.kept.push(diagnostic);
        }
    }

    pub(crate) fn into_vec(self) -> Vec<Diagnostic> {
        self.kept
    }
}

/// Returns `true` if any of the diagnostics is an error.
pub fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(Diagnostic::is_error)
}

/// Sorts diagnostics by file and location. Those at one location keep their order.
pub fn sort(diagnostics: &mut [Diagnostic]) {
    diagnostics
        .sort_by_key(|diagnostic| (diagnostic.primary.span.file, diagnostic.primary.span.start));
}

/// Cuts a sorted list at [`MAX_LISTED`] and adds a note at its end. If there was an error, an error
/// remains.
pub fn truncate(diagnostics: &mut Vec<Diagnostic>) {
    let is_cut = |diagnostic: &Diagnostic| diagnostic.code == &syntax::TOO_MANY_ERRORS;
    if diagnostics.len() <= MAX_LISTED + usize::from(diagnostics.iter().any(is_cut)) {
        return;
    }
    let span = diagnostics[MAX_LISTED].primary.span;
    diagnostics.truncate(MAX_LISTED);
    diagnostics.retain(|diagnostic| !is_cut(diagnostic));
    let message = "more errors in this file are not listed";
    diagnostics.push(
        Diagnostic::error(&syntax::TOO_MANY_ERRORS, span, message).label("the next one is here"),
    );
}
