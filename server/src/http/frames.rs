//! Framing of streamed answers: server-sent events, or lines of JSON.

use std::convert::Infallible;

use axum::{
    body::Body,
    http::{HeaderName, header},
    response::{IntoResponse as _, Response},
};
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _, stream};
use graphmill_calculators::http::dialect::Framing;
use tokio::time::timeout;

use super::HttpResult;
use crate::{app::state::App, shutdown::Stage};

/// Media type of lines of JSON.
pub(super) const LINES: &str = "application/x-ndjson";

/// Comment that clients skip. It keeps proxies from closing a silent connection.
const PING: &[u8] = b": ping\n\n";

/// Appends an event. In lines of JSON, a named event becomes an object with a member of that name.
pub(super) fn write(framing: Framing, out: &mut BytesMut, name: Option<&'static str>, data: &str) {
    match (framing, name) {
        (Framing::Events, name) => write_event(out, name, data),
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

/// Appends a server-sent event. Each line of `data` becomes a `data:` line, so that no text can end
/// the event or add a field to it.
pub(super) fn write_event(out: &mut BytesMut, name: Option<&'static str>, data: &str) {
    if let Some(name) = name {
        out.reserve(name.len() + 8);
        out.put_slice(b"event: ");
        out.put_slice(name.as_bytes());
        out.put_u8(b'\n');
    }
    let lines = data.split('\n');
    for line in lines.flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r')) {
        out.reserve(line.len() + 8);
        out.put_slice(b"data: ");
        out.put_slice(line.as_bytes());
        out.put_u8(b'\n');
    }
    out.put_u8(b'\n');
}

/// Appends the mark that a stream is complete, for streams whose last event does not say so.
pub(super) fn write_done(framing: Framing, out: &mut BytesMut) {
    if framing == Framing::Events {
        write_event(out, None, "[DONE]");
    }
}

/// Returns the bytes that keep a silent stream alive, which readers skip: a comment, or white space
/// before the next line.
pub(super) fn ping(framing: Framing) -> &'static [u8] {
    match framing {
        Framing::Events => PING,
        Framing::Lines => b" ",
    }
}

/// Creates the response that streams `body`.
pub(super) fn response(framing: Framing, body: Body) -> Response {
    if framing == Framing::Lines {
        return ([(header::CONTENT_TYPE, LINES)], body).into_response();
    }
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
        // Proxies that buffer answers would delay tokens.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, body).into_response()
}

/// Creates a stream of server-sent events for a viewer, until its client leaves or the server
/// stops.
pub(super) fn view(app: &App, events: impl Stream<Item = Bytes> + Send + 'static) -> HttpResult {
    let place = app.runner.sessions.viewer()?;
    let keep_alive = app.options.keep_alive;
    let viewed = (events.boxed(), place);
    let events = stream::unfold(viewed, move |(mut events, place)| async move {
        let said = timeout(keep_alive, events.next()).await;
        let bytes = said.unwrap_or(Some(Bytes::from_static(PING)))?;
        Some((Ok::<_, Infallible>(bytes), (events, place)))
    });
    let mut stage = app.runner.stage.clone();
    // An open page must not delay the end of the server.
    let draining = async move {
        let _ = stage.wait_for(|stage| *stage >= Stage::Draining).await;
    };
    let events = events.take_until(Box::pin(draining));
    Ok(response(Framing::Events, Body::from_stream(events)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: Option<&'static str>, data: &str) -> String {
        let mut out = BytesMut::new();
        write_event(&mut out, name, data);
        String::from_utf8(out.to_vec()).expect("UTF-8")
    }

    #[test]
    fn an_event_is_one_data_line_and_a_blank_one() {
        assert_eq!(event(None, r#"{"a": "é"}"#), "data: {\"a\": \"é\"}\n\n");
        assert_eq!(event(None, ""), "data: \n\n");
    }

    #[test]
    fn no_text_breaks_the_framing() {
        assert_eq!(
            event(None, "a\nb\r\nc\rid: 7\n\nend"),
            "data: a\ndata: b\ndata: c\ndata: id: 7\ndata: \ndata: end\n\n"
        );
    }

    #[test]
    fn a_named_event_has_its_name_in_front() {
        assert_eq!(event(Some("ping"), "{}"), "event: ping\ndata: {}\n\n");
    }

    #[test]
    fn a_line_is_one_line_whatever_the_json_is_written_like() {
        let mut out = BytesMut::new();
        write(Framing::Lines, &mut out, None, "{\n\"a\":\r\n1}");
        write(Framing::Lines, &mut out, Some("timings"), "{}");
        write_done(Framing::Lines, &mut out);
        assert_eq!(&out[..], b"{ \"a\":  1}\n{\"timings\":{}}\n");
    }
}
