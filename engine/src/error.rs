//! The error of a session.
//!
//! An [`Error`] ends the session in which it occurred and nothing else. It carries the details of a
//! server's response: the kind, the node, and for refused input a machine-readable code and the
//! name of the field. Mistakes in graph files are `Diagnostic`s (crate `graphmill-grammar`)
//! instead.

use std::{borrow::Cow, fmt, sync::Arc};

use crate::timestamp::Timestamp;

/// Result of operations that can fail while a session runs.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The class of an [`Error`]. A server maps it to a status code.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The request is wrong. Sending it again does not help.
    InvalidArgument,
    /// The request names something that does not exist.
    NotFound,
    /// The call came at the wrong time: before the start or after the close.
    FailedPrecondition,
    /// A limit is reached (queue, cache, memory). A later or smaller request may succeed.
    ResourceExhausted,
    /// The request's deadline passed before the session ended.
    DeadlineExceeded,
    /// The caller cancelled or disconnected.
    Cancelled,
    /// Something that the request needs is not available now. It may be later.
    Unavailable,
    /// A defect in a calculator, in the engine or in the machine.
    Internal,
}

/// The failure of one session. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Error {
    /// Class of the error, which decides the status code of a response.
    pub kind: Kind,
    /// Name of the node that failed. The session fills it in.
    pub node: Option<Arc<str>>,
    /// Timestamp of the packets in the failed call. The session fills it in; [`Timestamp::UNSET`]
    /// if the call had no packets.
    pub time: Timestamp,
    /// Description: lower case, no full stop.
    pub message: String,
    /// Machine-readable code for clients, such as `context_length_exceeded`.
    pub code: Option<Cow<'static, str>>,
    /// Field of the request that is wrong, such as `temperature`.
    pub field: Option<Cow<'static, str>>,
    /// Failure that caused this one, for logs.
    pub source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Makes an error of `kind` without node, code, field and source.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            node: None,
            time: Timestamp::UNSET,
            message: message.into(),
            code: None,
            field: None,
            source: None,
        }
    }

    /// Makes an error of kind [`Kind::InvalidArgument`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::InvalidArgument, message)
    }

    /// Makes an error of kind [`Kind::NotFound`].
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, message)
    }

    /// Makes an error of kind [`Kind::FailedPrecondition`].
    pub fn precondition(message: impl Into<String>) -> Self {
        Self::new(Kind::FailedPrecondition, message)
    }

    /// Makes an error of kind [`Kind::ResourceExhausted`].
    pub fn exhausted(message: impl Into<String>) -> Self {
        Self::new(Kind::ResourceExhausted, message)
    }

    /// Makes an error of kind [`Kind::DeadlineExceeded`].
    pub fn deadline(message: impl Into<String>) -> Self {
        Self::new(Kind::DeadlineExceeded, message)
    }

    /// Makes an error of kind [`Kind::Cancelled`].
    pub fn cancelled(message: impl Into<String>) -> Self {
        Self::new(Kind::Cancelled, message)
    }

    /// Makes an error of kind [`Kind::Unavailable`].
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Kind::Unavailable, message)
    }

    /// Makes an error of kind [`Kind::Internal`].
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message)
    }

    /// Sets the machine-readable code.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<Cow<'static, str>>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// Sets the field of the request that is wrong.
    #[must_use]
    pub fn with_field(mut self, field: impl Into<Cow<'static, str>>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Sets the failure that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Sets the timestamp of the packet at fault, unless one is set already.
    #[must_use]
    pub fn at_time(mut self, time: Timestamp) -> Self {
        if self.time == Timestamp::UNSET {
            self.time = time;
        }
        self
    }

    /// Sets the node, unless one is set already: the innermost call knows best.
    #[must_use]
    pub fn at_node(mut self, node: &Arc<str>) -> Self {
        self.node.get_or_insert_with(|| Arc::clone(node));
        self
    }
}

/// Cuts a text after at most `most` bytes and marks the cut. Errors quote text from users this way.
///
/// ```
/// use graphmill_engine::shortened;
/// assert_eq!(shortened("short", 10), "short");
/// assert_eq!(shortened("a longer text", 8), "a longer…");
/// ```
pub fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}…", &text[..text.floor_char_boundary(most)]))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(f, "node `{node}`: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source
            .as_deref()
            .map(|source| source as &(dyn std::error::Error + 'static))
    }
}
