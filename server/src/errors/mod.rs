//! The error table: the HTTP status, type and code of each failure, and whether to retry.
//!
//! Each failure of a request becomes a [`Failure`] here, so that no status code is chosen where the
//! failure occurs. A failure that would repeat is never marked as one to retry.

mod response;

use std::{borrow::Cow, sync::Arc, time::Duration};

use axum::http::StatusCode;
use graphmill_calculators::http::dialect;
use graphmill_engine::{Error, Kind, Summary};

/// Supported encodings of bodies, in the format of the header `accept-encoding`.
pub(crate) const ENCODINGS: &str = "gzip, deflate, identity";

/// The cause of a failed request.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The body or one of its fields is wrong.
    BadRequest,
    /// The prompt can never fit.
    ContextLength,
    /// No graph has the name in `model`.
    UnknownModel,
    /// A node reports that something the request names does not exist.
    NotFound,
    /// Nothing is served at the path.
    UnknownRoute,
    /// The path is served, but not with this method.
    WrongMethod,
    /// The protocol has this operation, but this server does not.
    Unsupported,
    /// The body exceeds the size limit.
    BodyTooLarge,
    /// The compression of the body is not supported.
    UnknownEncoding,
    /// The memory budget has no space for the body beside the bodies of other requests.
    BodiesFull,
    /// The request has no key, or an invalid one.
    NoKey,
    /// The key does not allow this.
    Forbidden,
    /// The key is over its limit.
    RateLimited,
    /// The head or the body did not arrive in time.
    LateRequest,
    /// The request names a host that this server does not serve.
    ForeignHost,
    /// A page of a site that is not allowed sent the request.
    ForeignOrigin,
    /// The limit of connections or requests is reached.
    TooManyConnections,
    /// A queue or a cache is full.
    QueueFull,
    /// The graph's models are being loaded.
    Loading,
    /// The graph could not be loaded.
    GraphFailed,
    /// There is not enough memory for the graph now.
    NoMemory,
    /// The server is stopping and takes no new requests.
    Draining,
    /// A resource of the graph is not available now.
    Unavailable,
    /// The deadline of the request passed.
    Deadline,
    /// A node or the server cancelled the request.
    Cancelled,
    /// A node failed or panicked.
    NodeFailed,
    /// The graph ended without an answer, or in the middle of one.
    NoAnswer,
    /// The server itself panicked, not a node.
    Panic,
}

/// The advice for clients on sending the same request again.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// The status code alone gives the advice.
    Implied,
    /// Retry after this number of seconds.
    After(u32),
    /// Do not retry, although clients usually retry this status: the same request fails again.
    Never,
}

/// A row of the error table.
#[derive(Copy, Clone, Debug)]
pub(crate) struct ErrorRow {
    pub(crate) status: StatusCode,
    /// Value of OpenAI's `type` in the error.
    pub(crate) kind: &'static str,
    /// Value of OpenAI's `code`, unless the failure has its own.
    pub(crate) code: Option<&'static str>,
    pub(crate) retry: Retry,
}

/// Returns the row of a cause.
#[rustfmt::skip]
pub(crate) const fn row(cause: Cause) -> ErrorRow {
    use Retry::{After, Implied, Never};
    let (status, kind, code, retry) = match cause {
        Cause::BadRequest    => (StatusCode::BAD_REQUEST,           "invalid_request_error", Some("invalid_value"),           Implied),
        Cause::ContextLength => (StatusCode::BAD_REQUEST,           "invalid_request_error", Some("context_length_exceeded"), Implied),
        Cause::UnknownModel  => (StatusCode::NOT_FOUND,             "invalid_request_error", Some("model_not_found"),         Implied),
        Cause::NotFound      => (StatusCode::NOT_FOUND,             "invalid_request_error", Some("not_found"),               Implied),
        Cause::UnknownRoute  => (StatusCode::NOT_FOUND,             "invalid_request_error", Some("unknown_url"),             Implied),
        Cause::WrongMethod   => (StatusCode::METHOD_NOT_ALLOWED,    "invalid_request_error", Some("method_not_supported"),    Implied),
        Cause::Unsupported   => (StatusCode::NOT_IMPLEMENTED,       "invalid_request_error", Some("not_supported"),           Never),
        Cause::UnknownEncoding => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid_request_error", Some("unsupported_encoding"),   Implied),
        Cause::BodyTooLarge  => (StatusCode::PAYLOAD_TOO_LARGE,     "invalid_request_error", Some("request_too_large"),       Implied),
        Cause::BodiesFull    => (StatusCode::SERVICE_UNAVAILABLE,   "unavailable_error",     Some("bodies_full"),             After(1)),
        Cause::NoKey         => (StatusCode::UNAUTHORIZED,          "authentication_error",  Some("invalid_api_key"),         Implied),
        Cause::Forbidden     => (StatusCode::FORBIDDEN,             "permission_error",      Some("permission_denied"),       Implied),
        Cause::RateLimited   => (StatusCode::TOO_MANY_REQUESTS,     "rate_limit_error",      Some("rate_limit_exceeded"),     After(1)),
        Cause::LateRequest   => (StatusCode::REQUEST_TIMEOUT,       "timeout_error",         Some("request_timeout"),         Implied),
        Cause::ForeignHost   => (StatusCode::MISDIRECTED_REQUEST,   "invalid_request_error", Some("host_not_allowed"),        Implied),
        Cause::ForeignOrigin => (StatusCode::FORBIDDEN,             "invalid_request_error", Some("origin_not_allowed"),      Implied),
        Cause::TooManyConnections => (StatusCode::SERVICE_UNAVAILABLE, "unavailable_error",  Some("too_many_connections"),    After(1)),
        Cause::QueueFull     => (StatusCode::TOO_MANY_REQUESTS,     "rate_limit_error",      Some("queue_full"),              After(1)),
        Cause::Loading       => (StatusCode::SERVICE_UNAVAILABLE,   "unavailable_error",     Some("loading"),                 After(1)),
        Cause::GraphFailed   => (StatusCode::SERVICE_UNAVAILABLE,   "unavailable_error",     Some("graph_failed"),            Never),
        Cause::NoMemory      => (StatusCode::SERVICE_UNAVAILABLE,   "unavailable_error",     Some("no_memory"),               After(5)),
        Cause::Draining      => (StatusCode::SERVICE_UNAVAILABLE,   "unavailable_error",     Some("draining"),                After(1)),
        Cause::Unavailable   => (StatusCode::SERVICE_UNAVAILABLE,   "unavailable_error",     Some("engine_failed"),           After(5)),
        Cause::Deadline      => (StatusCode::GATEWAY_TIMEOUT,       "timeout_error",         Some("deadline"),                Implied),
        Cause::Cancelled     => (StatusCode::INTERNAL_SERVER_ERROR, "server_error",          Some("cancelled"),               Never),
        Cause::NodeFailed    => (StatusCode::INTERNAL_SERVER_ERROR, "server_error",          Some("node_failed"),             Never),
        Cause::NoAnswer      => (StatusCode::INTERNAL_SERVER_ERROR, "server_error",          Some("no_answer"),               Never),
        Cause::Panic         => (StatusCode::INTERNAL_SERVER_ERROR, "server_error",          Some("internal_error"),          Never),
    };
    ErrorRow { status, kind, code, retry }
}

/// The result of a step that can fail the request.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// A failed or incomplete request, explained for the client.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    pub(crate) message: String,
    /// Code more specific than the table's.
    code: Option<Cow<'static, str>>,
    /// Field of the request that is wrong.
    pub(crate) param: Option<Cow<'static, str>>,
    /// Node that failed, if the request itself is right.
    pub(crate) node: Option<Arc<str>>,
    /// Seconds after which the same request may succeed, if known better than in the table.
    after: Option<u32>,
}

/// Maximum `retry-after` in seconds. Clients do not wait longer.
const MAX_AFTER: u32 = 3_600;

impl Failure {
    pub(crate) fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self {
            cause,
            message: bounded(message.into()),
            code: None,
            param: None,
            node: None,
            after: None,
        }
    }

    /// Creates the failure of a request that the stopping server aborts or refuses.
    pub(crate) fn stopping() -> Self {
        Self::new(Cause::Draining, "the server is stopping")
    }

    /// Creates the failure of a text request that names a graph of tensors.
    pub(crate) fn for_tensors(graph: &str) -> Self {
        let why = format!("the graph takes tensors: POST /v2/models/{graph}/infer");
        Self::new(Cause::BadRequest, why).with_field("model")
    }

    /// Creates the failure of a request whose deadline has passed.
    pub(crate) fn late() -> Self {
        Self::new(Cause::Deadline, "the deadline of the request passed")
    }

    /// Creates the failure of a graph that ended without output, with the state of its nodes.
    pub(crate) fn no_answer(summary: Option<&Summary>) -> Self {
        let left = summary.map(|summary| format!(": {}", summary.left()));
        let left = left.unwrap_or_default();
        let why = format!("the graph ended without an answer{left}");
        Self::new(Cause::NoAnswer, why)
    }

    /// Sets the time to retry after, rounded up to seconds and at least one, if the cause allows a
    /// retry.
    #[must_use]
    pub(crate) fn after(mut self, wait: Duration) -> Self {
        if let Retry::After(_) = self.row().retry {
            let seconds = wait.as_secs_f64().ceil() as u32;
            self.after = Some(seconds.clamp(1, MAX_AFTER));
        }
        self
    }

    /// Returns the advice on retrying.
    pub(crate) fn retry(&self) -> Retry {
        self.after.map_or(self.row().retry, Retry::After)
    }

    /// Sets the field of the request that is wrong.
    #[must_use]
    pub(crate) fn with_field(mut self, param: impl Into<Cow<'static, str>>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Sets a code more specific than the table's.
    #[must_use]
    pub(crate) fn with_code(mut self, code: &'static str) -> Self {
        self.code = Some(code.into());
        self
    }

    /// Sets the field that holds the prompts, if the failure is about them. The engine that found
    /// it does not know names of fields.
    #[must_use]
    pub(crate) fn with_prompt_field(mut self, field: Option<&'static str>) -> Self {
        let is_at_fault =
            self.cause == Cause::ContextLength || self.code() == Some("too_many_sequences");
        if is_at_fault && self.param.is_none() {
            self.param = field.map(Cow::Borrowed);
        }
        self
    }

    pub(crate) fn row(&self) -> ErrorRow {
        row(self.cause)
    }

    /// Returns the failure as dialects format it, with the id of the request if it is shown.
    pub(crate) fn view<'a>(&'a self, request: Option<&'a str>) -> dialect::Failure<'a> {
        let row = self.row();
        dialect::Failure {
            status: row.status.as_u16(),
            kind: row.kind,
            code: self.code(),
            message: &self.message,
            param: self.param.as_deref(),
            node: self.node.as_deref(),
            passes: row.retry != Retry::Never,
            request,
        }
    }

    /// Returns the value of OpenAI's `code`.
    pub(crate) fn code(&self) -> Option<&str> {
        self.code.as_deref().or(self.row().code)
    }
}

/// Maximum length of a message in bytes. Messages should quote at most 200 bytes of a request; this
/// limit catches those that quote more.
const MAX_MESSAGE_BYTES: usize = 1_000;

/// Shortens a message to the maximum length.
fn bounded(mut message: String) -> String {
    if message.len() > MAX_MESSAGE_BYTES {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
        message.push('…');
    }
    message
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let cause = match error.kind {
            Kind::InvalidArgument if error.code.as_deref() == Some("context_length_exceeded") => {
                Cause::ContextLength
            }
            Kind::InvalidArgument => Cause::BadRequest,
            Kind::NotFound => Cause::NotFound,
            Kind::ResourceExhausted if error.code.as_deref() == Some("rate_limit_exceeded") => {
                Cause::RateLimited
            }
            Kind::ResourceExhausted => Cause::QueueFull,
            Kind::DeadlineExceeded => Cause::Deadline,
            Kind::Cancelled => Cause::Cancelled,
            Kind::Unavailable => Cause::Unavailable,
            Kind::FailedPrecondition | Kind::Internal => Cause::NodeFailed,
        };
        // Errors of the request name their field. The node that found them would not help the
        // client.
        let is_ours = row(cause).status.is_server_error();
        let node = error.node.filter(|_| is_ours);
        Self {
            cause,
            message: bounded(error.message),
            code: error.code,
            param: error.field.map(|field| bounded(field.into_owned()).into()),
            node,
            after: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_engine_keeps_its_code_and_field() {
        let error = Error::invalid("`temperature` is 3, at most 2 is possible")
            .with_code("out_of_range")
            .with_field("temperature");
        let failure = Failure::from(error);
        assert_eq!(failure.row().status, StatusCode::BAD_REQUEST);
        assert_eq!(
            (failure.code(), failure.param.as_deref()),
            (Some("out_of_range"), Some("temperature"))
        );
    }

    #[test]
    fn a_node_is_named_only_where_the_request_is_not_at_fault() {
        let node: Arc<str> = "Mask".into();
        assert_eq!(
            Failure::from(Error::invalid("wrong").at_node(&node)).node,
            None
        );
        assert_eq!(
            Failure::from(Error::internal("broken").at_node(&node))
                .node
                .as_deref(),
            Some("Mask")
        );
    }

    #[test]
    fn kinds_have_the_statuses_that_clients_act_on() {
        for (error, status, code, retry) in [
            (
                Error::invalid("x"),
                400,
                Some("invalid_value"),
                Retry::Implied,
            ),
            (
                Error::invalid("x").with_code("context_length_exceeded"),
                400,
                Some("context_length_exceeded"),
                Retry::Implied,
            ),
            (
                Error::not_found("x"),
                404,
                Some("not_found"),
                Retry::Implied,
            ),
            (
                Error::exhausted("x"),
                429,
                Some("queue_full"),
                Retry::After(1),
            ),
            (Error::deadline("x"), 504, Some("deadline"), Retry::Implied),
            (
                Error::unavailable("x"),
                503,
                Some("engine_failed"),
                Retry::After(5),
            ),
            (
                Error::precondition("x"),
                500,
                Some("node_failed"),
                Retry::Never,
            ),
            (Error::internal("x"), 500, Some("node_failed"), Retry::Never),
            (Error::cancelled("x"), 500, Some("cancelled"), Retry::Never),
        ] {
            let failure = Failure::from(error);
            assert_eq!(
                (
                    failure.row().status.as_u16(),
                    failure.code(),
                    failure.row().retry
                ),
                (status, code, retry)
            );
        }
    }
}
