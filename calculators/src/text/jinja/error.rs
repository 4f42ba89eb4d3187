//! Errors of a template.

use minijinja::Error;

/// Why a template does not compile or render.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The template is no valid Jinja.
    #[error("chat template, line {line}: {message}")]
    Syntax {
        /// Line in the template, from one.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// The template itself refused the conversation with `raise_exception`.
    #[error("{0}")]
    Raised(String),
    /// The template failed on this conversation, as it would in Python.
    #[error("chat template, line {line}: {message}")]
    Render {
        /// Line in the template, from one.
        line: usize,
        /// What happened there.
        message: String,
    },
    /// The template takes more steps or memory than it may, or nobody waits for it any more.
    #[error("chat template, line {line}: {message}")]
    Stopped {
        /// Line in the template where it was stopped, from one.
        line: usize,
        /// What there was too much of.
        message: String,
    },
}

/// What an error says, without where.
pub(crate) fn message_of(error: &Error) -> String {
    error
        .detail()
        .map_or_else(|| error.kind().to_string(), str::to_owned)
}
