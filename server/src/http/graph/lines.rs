//! Streams of lines, each a JSON object (NDJSON).

use axum::{
    body::Body,
    http::header,
    response::{IntoResponse as _, Response},
};
use bytes::{BufMut as _, BytesMut};

/// An empty line, which clients skip: keeps proxies from closing a connection that is silent for
/// long.
pub(super) const PING: &[u8] = b"\n";

/// Appends a line of JSON, which has no line breaks of its own.
pub(super) fn write(out: &mut BytesMut, json: &str) {
    out.reserve(json.len() + 1);
    out.put_slice(json.as_bytes());
    out.put_u8(b'\n');
}

/// The answer that has `body` for its lines.
pub(super) fn response(body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, body).into_response()
}
