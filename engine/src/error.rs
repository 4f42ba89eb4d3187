//! The error of a session.
//!
//! A mistake in a graph file is a `Diagnostic` (crate `graphmill-grammar`) and never an [`Error`];
//! an `Error` ends the session it happened in and nothing else. It carries what a server needs to
//! answer with: the kind, the node, and for refused input a machine-readable code and the name of
//! the offending field.

use std::{borrow::Cow, fmt, sync::Arc};

use crate::timestamp::Timestamp;

/// The result of everything that can fail while a session runs.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The class of an [`Error`]; a server maps it to a status code.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The request is wrong and stays wrong when it is sent again.
    InvalidArgument,
    /// Something the request names does not exist.
    NotFound,
    /// The call came at the wrong time: before the start, after the close.
    FailedPrecondition,
    /// A limit is reached (queue, cache, memory); later or smaller may succeed.
    ResourceExhausted,
    /// The deadline of the request passed.
    DeadlineExceeded,
    /// The caller went away or cancelled.
    Cancelled,
    /// Something the request needs is not there now; it may be later.
    Unavailable,
    /// A defect: in a calculator, in the engine, in the machine.
    Internal,
}

/// A failure of one session, cheap to clone.
#[derive(Clone, Debug)]
pub struct Error {
    /// Its class.
    pub kind: Kind,
    /// The name of the node it happened in, filled in by the session.
    pub node: Option<Arc<str>>,
    /// The timestamp of the packets that the node was called with, filled in by the session;
    /// [`Timestamp::UNSET`] if it was called for something else.
    pub time: Timestamp,
    /// What happened: lower case, no full stop.
    pub message: String,
    /// A machine-readable code for the client, such as `context_length_exceeded`.
    pub code: Option<Cow<'static, str>>,
    /// The field of the request that is at fault, such as `temperature`.
    pub field: Option<Cow<'static, str>>,
    /// The underlying failure.
    pub source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Makes an error of `kind`.
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

    /// An error of kind [`Kind::InvalidArgument`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::InvalidArgument, message)
    }

    /// An error of kind [`Kind::NotFound`].
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, message)
    }

    /// An error of kind [`Kind::FailedPrecondition`].
    pub fn precondition(message: impl Into<String>) -> Self {
        Self::new(Kind::FailedPrecondition, message)
    }

    /// An error of kind [`Kind::ResourceExhausted`].
    pub fn exhausted(message: impl Into<String>) -> Self {
        Self::new(Kind::ResourceExhausted, message)
    }

    /// An error of kind [`Kind::DeadlineExceeded`].
    pub fn deadline(message: impl Into<String>) -> Self {
        Self::new(Kind::DeadlineExceeded, message)
    }

    /// An error of kind [`Kind::Cancelled`].
    pub fn cancelled(message: impl Into<String>) -> Self {
        Self::new(Kind::Cancelled, message)
    }

    /// An error of kind [`Kind::Unavailable`].
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Kind::Unavailable, message)
    }

    /// An error of kind [`Kind::Internal`].
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message)
    }

    /// Adds the machine-readable code.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<Cow<'static, str>>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// Names the field of the request that is at fault.
    #[must_use]
    pub fn with_field(mut self, field: impl Into<Cow<'static, str>>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Adds the underlying failure.
    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Names the timestamp of the packet that is at fault, unless one is named already.
    #[must_use]
    pub fn at_time(mut self, time: Timestamp) -> Self {
        if self.time == Timestamp::UNSET {
            self.time = time;
        }
        self
    }

    /// Names the node, unless one is named already: the innermost knows best.
    #[must_use]
    pub fn at_node(mut self, node: &Arc<str>) -> Self {
        self.node.get_or_insert_with(|| Arc::clone(node));
        self
    }
}

/// The beginning of a text that is longer than this many bytes, and a sign that there is more: how
/// an error shows what a stranger wrote.
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
