//! Diagnostics as data: what is wrong with a user's file, where, and what to do about it.
//!
//! A diagnostic is never thrown and never a bare string: every check pushes one and goes on, so
//! that a file's errors are reported together. The same values feed the terminal, JSON output, the
//! reload API and editors; [`crate::render`] turns them into text. Headlines are lower case, name
//! things in backticks and say what was expected; advice is a hint.

use std::fmt;

use crate::codes::{Code, syntax};
use crate::span::Span;

/// How many errors and warnings of one file are listed.
pub const MAX_LISTED: usize = 100;

/// How bad it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The file works, but probably not as meant.
    Warning,
    /// The file cannot be used.
    Error,
}

impl Severity {
    /// The word for it, as shown to people and in JSON.
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

/// A place with a word about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The place.
    pub span: Span,
    /// What is to be seen there; may be empty.
    pub text: String,
}

/// Replaces a piece of a file; an empty span inserts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What to replace.
    pub span: Span,
    /// What to put there.
    pub replacement: String,
}

/// Advice, and where it is certain enough the edits that follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The advice in words, complete without the edits.
    pub text: String,
    /// Edits that carry it out; empty where a person has to decide.
    pub edits: Vec<Edit>,
}

/// One thing that is wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Which kind of thing.
    pub code: &'static Code,
    /// How bad it is.
    pub severity: Severity,
    /// The headline: one sentence, lower case, no full stop.
    pub message: String,
    /// Where it is.
    pub primary: Label,
    /// Other places that explain it, such as the first of two definitions.
    pub secondary: Vec<Label>,
    /// What to do.
    pub hints: Vec<Hint>,
}

impl Diagnostic {
    /// An error at `span`.
    pub fn error(code: &'static Code, span: Span, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Error, span, message.into())
    }

    /// A warning at `span`.
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

    /// Says what is to be seen at the primary place.
    #[must_use]
    pub fn label(mut self, text: impl Into<String>) -> Self {
        self.primary.text = text.into();
        self
    }

    /// Adds another place.
    #[must_use]
    pub fn also(mut self, span: Span, text: impl Into<String>) -> Self {
        self.secondary.push(Label {
            span,
            text: text.into(),
        });
        self
    }

    /// Adds advice.
    #[must_use]
    pub fn hint(self, text: impl Into<String>) -> Self {
        self.advise(text, None)
    }

    /// Adds advice that one edit carries out.
    #[must_use]
    pub fn fix(self, text: impl Into<String>, span: Span, replacement: impl Into<String>) -> Self {
        self.advise(text, Some((span, replacement.into())))
    }

    /// Adds advice, with the edit that carries it out where one can: a place and its new text.
    #[must_use]
    pub fn advise(mut self, text: impl Into<String>, edit: Option<(Span, String)>) -> Self {
        let edit = edit.map(|(span, replacement)| Edit { span, replacement });
        self.hints.push(Hint {
            text: text.into(),
            edits: edit.into_iter().collect(),
        });
        self
    }

    /// Names what was probably meant, with the edit that writes it where one can.
    #[must_use]
    pub fn did_you_mean(self, meant: &str, edit: Option<(Span, String)>) -> Self {
        self.advise(format!("did you mean `{meant}`?"), edit)
    }

    /// Tells whether this makes the file unusable.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// What one phase has found, bounded, because a file of 64 MiB can hold as many mistakes.
#[derive(Default)]
pub(crate) struct Findings {
    kept: Vec<Diagnostic>,
    errors: usize,
    warnings: usize,
}

impl Findings {
    /// Errors and warnings are counted apart, so that no number of warnings hides an error. Far
    /// above [`MAX_LISTED`], because a phase reports some things late that stand early in the file.
    const MAX_KEPT: usize = 100 * MAX_LISTED;

    /// Adds a diagnostic unless there are too many of its severity.
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

/// Tells whether any of the diagnostics is an error.
pub fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(Diagnostic::is_error)
}

/// Puts diagnostics into the order of the files and places they point to; those at one place keep
/// their order.
pub fn sort(diagnostics: &mut [Diagnostic]) {
    diagnostics
        .sort_by_key(|diagnostic| (diagnostic.primary.span.file, diagnostic.primary.span.start));
}

/// Cuts a sorted list at [`MAX_LISTED`] and says so at its end; an error is among what is left if
/// there was one.
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
