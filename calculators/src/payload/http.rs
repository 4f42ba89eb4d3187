//! An HTTP request as it enters a graph, and the pieces of an answer as they leave it.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    JsonBody, NamedAdapter,
    dialect::{Family, Purpose, Target},
};

/// An HTTP request as it enters a graph, on the stream tagged `HTTP_REQUEST_PAYLOAD`.
#[derive(Clone, Debug, Default)]
pub struct HttpRequestPayload {
    /// HTTP method as the client sent it, usually `POST`.
    pub method: String,
    /// Path and query, such as `/v3/chat/completions`.
    pub uri: String,
    /// The dialect and the purpose of the path; `None` if no dialect has the path.
    pub target: Option<Target>,
    /// Headers: names in lower case, and values that are text.
    pub headers: Vec<(String, String)>,
    /// The body as it came.
    pub body: Bytes,
    /// The fields of the body, if it is a JSON object.
    pub json: Option<Arc<JsonBody>>,
    /// The adapters that the request names beside the graph, or instead of it.
    pub adapters: Arc<[NamedAdapter]>,
}

impl HttpRequestPayload {
    /// Returns the family and the purpose of the request; `None` if nothing is served at its path.
    pub(crate) fn served(&self) -> Option<(Family, Purpose)> {
        let Target { dialect, purpose } = self.target?;
        Some((dialect.family(), purpose?))
    }
}

/// A piece of the answer as it leaves a graph, on the stream tagged `HTTP_RESPONSE_PAYLOAD`.
///
/// The first packet that is not a `Header` decides the form: a `Body` is the whole answer, an
/// `Event` begins a stream of server-sent events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpResponse {
    /// A header of the answer. It must come before everything else, or it has no effect.
    Header {
        /// Name of the header, in lower case.
        name: &'static str,
        /// Value of the header: visible ASCII.
        value: String,
    },
    /// The whole answer of a request that does not stream.
    Body {
        /// Media type, such as `application/json`.
        content_type: &'static str,
        /// Content of the body, in this media type.
        bytes: Bytes,
    },
    /// The data of one server-sent event: one line of JSON, without the framing.
    Event(String),
    /// A server-sent event of a dialect whose events have names.
    NamedEvent {
        /// Name of the event, such as `message_start`.
        name: &'static str,
        /// Data of the event: one line of JSON, without the framing.
        data: String,
    },
    /// The successful end of a stream, which the framing marks.
    Done,
    /// The successful end of a stream whose last event already marks it.
    End,
}
