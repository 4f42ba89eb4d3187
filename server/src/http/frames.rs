//! Framing of streamed answers: server-sent events, or lines of JSON.

use axum::{
    body::Body,
    http::header,
    response::{IntoResponse as _, Response},
};
use bytes::{BufMut as _, BytesMut};
use graphmill_calculators::http::dialect::Framing;

use super::sse;

/// Media type of lines of JSON.
pub(super) const LINES: &str = "application/x-ndjson";

/// Appends an event. In lines of JSON, a named event becomes an object with a member of that name.
pub(super) fn write(framing: Framing, out: &mut BytesMut, name: Option<&'static str>, data: &str) {
    match (framing, name) {
        (Framing::Events, None) => sse::write_event(out, data),
        (Framing::Events, Some(name)) => sse::write_named_event(out, name, data),
        (Framing::Lines, None) => {
            // Line breaks in JSON are white space, as strings contain none.
            let is_end = |byte: u8| byte == b'\n' || byte == b'\r';
            let bytes = data.bytes();
            out.extend(bytes.map(|byte| if is_end(byte) { b' ' } else { byte }));
            out.put_u8(b'\n');
        }
        (Framing::Lines, Some(name)) => {
            write(framing, out, None, &format!("{{\"{name}\":{data}}}"));
        }
    }
}

/// Appends the mark that a stream is complete, for streams whose last event does not say so.
pub(super) fn write_done(framing: Framing, out: &mut BytesMut) {
    if framing == Framing::Events {
        sse::write_event(out, sse::DONE);
    }
}

/// Returns the bytes that keep a silent stream alive, which readers skip: a comment, or white space
/// before the next line.
pub(super) fn ping(framing: Framing) -> &'static [u8] {
    match framing {
        Framing::Events => sse::PING,
        Framing::Lines => b" ",
    }
}

/// Creates the response that streams `body`.
pub(super) fn response(framing: Framing, body: Body) -> Response {
    match framing {
        Framing::Events => sse::response(body),
        Framing::Lines => ([(header::CONTENT_TYPE, LINES)], body).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_whatever_the_json_is_written_like() {
        let mut out = BytesMut::new();
        write(Framing::Lines, &mut out, None, "{\n\"a\":\r\n1}");
        write(Framing::Lines, &mut out, Some("timings"), "{}");
        write_done(Framing::Lines, &mut out);
        assert_eq!(&out[..], b"{ \"a\":  1}\n{\"timings\":{}}\n");
    }
}
