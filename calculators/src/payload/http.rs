//! A request as it comes, and the pieces of an answer as they leave.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    JsonBody, NamedAdapter,
    dialect::{Family, Purpose, Target},
};

/// An HTTP request as it enters a graph, on the stream tagged `HTTP_REQUEST_PAYLOAD`.
#[derive(Clone, Debug, Default)]
pub struct HttpRequestPayload {
    /// `POST`, mostly.
    pub method: String,
    /// Path and query, such as `/v3/chat/completions`.
    pub uri: String,
    /// The dialect, and what is asked in it; `None` where no dialect has the path.
    pub target: Option<Target>,
    /// Names in lower case, with values that are text.
    pub headers: Vec<(String, String)>,
    /// The body as it came.
    pub body: Bytes,
    /// The fields of the body, where it is a JSON object.
    pub json: Option<Arc<JsonBody>>,
    /// The adapters that the request names beside the graph, or in its place.
    pub adapters: Arc<[NamedAdapter]>,
}

impl HttpRequestPayload {
    /// The node that reads it, and what it asks; `None` if nothing is served at its path.
    pub(crate) fn served(&self) -> Option<(Family, Purpose)> {
        let Target { dialect, purpose } = self.target?;
        Some((dialect.family(), purpose?))
    }
}

/// A piece of the answer as it leaves a graph, on the stream tagged `HTTP_RESPONSE_PAYLOAD`.
///
/// The first packet that is no `Header` decides: a `Body` is the whole answer, an `Event` begins a
/// stream of server-sent events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpResponse {
    /// A header of the answer. Comes before everything else, or has no effect.
    Header {
        /// Its name, in lower case.
        name: &'static str,
        /// Its value: visible ASCII.
        value: String,
    },
    /// The whole answer of a request that does not stream.
    Body {
        /// Its media type, such as `application/json`.
        content_type: &'static str,
        /// Its bytes.
        bytes: Bytes,
    },
    /// The data of one server-sent event: one line of JSON, without the framing.
    Event(String),
    /// A server-sent event of a dialect whose events have names.
    NamedEvent {
        /// Its name.
        name: &'static str,
        /// Its data: one line of JSON, without the framing.
        data: String,
    },
    /// The stream ended well.
    Done,
    /// The stream ended well, in a dialect whose last event says so itself.
    End,
}
