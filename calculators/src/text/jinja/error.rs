//! Errors of a template.

use minijinja::Error;

/// The reason why a template does not compile or render.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The template is not valid Jinja.
    #[error("chat template, line {line}: {message}")]
    Syntax {
        /// Line in the template, counted from 1.
        line: usize,
        /// Description of the fault.
        message: String,
    },
    /// The template itself refused the conversation with `raise_exception`.
    #[error("{0}")]
    Raised(String),
    /// The template failed on this conversation, as it would in Python.
    #[error("chat template, line {line}: {message}")]
    Render {
        /// Line in the template, counted from 1.
        line: usize,
        /// Description of the failure.
        message: String,
    },
    /// The template takes more steps or memory than allowed, or the request was cancelled.
    #[error("chat template, line {line}: {message}")]
    Stopped {
        /// Line in the template where it was stopped, counted from 1.
        line: usize,
        /// Description of the exceeded limit.
        message: String,
    },
}

/// Returns the message of an error without its position.
pub(crate) fn message_of(error: &Error) -> String {
    error
        .detail()
        .map_or_else(|| error.kind().to_string(), str::to_owned)
}
