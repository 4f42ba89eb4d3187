//! Server-sent events: framing, the end of streams, and keep-alives, independent of the content of
//! events.

use std::convert::Infallible;

use axum::{
    body::Body,
    http::{HeaderName, header},
    response::{IntoResponse as _, Response},
};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _, stream};
use tokio::time::timeout;

use crate::{app::state::App, errors::Failure, stage::Stage};

/// Data of the event that ends a complete stream.
pub(super) const DONE: &str = "[DONE]";

/// Comment that clients skip. It keeps proxies from closing a silent connection.
pub(crate) const PING: &[u8] = b": ping\n\n";

/// Appends an event. Each line of `data` becomes a `data:` line, so that no text can end the event
/// or add a field to it.
pub(crate) fn write_event(out: &mut BytesMut, data: &str) {
    let lines = data.split('\n');
    for line in lines.flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r')) {
        out.reserve(line.len() + 8);
        out.put_slice(b"data: ");
        out.put_slice(line.as_bytes());
        out.put_u8(b'\n');
    }
    out.put_u8(b'\n');
}

/// Appends an event with a name.
pub(crate) fn write_named_event(out: &mut BytesMut, name: &'static str, data: &str) {
    out.reserve(name.len() + 8);
    out.put_slice(b"event: ");
    out.put_slice(name.as_bytes());
    out.put_u8(b'\n');
    write_event(out, data);
}

/// Creates the response that streams `body`.
pub(crate) fn response(body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
        // Proxies that buffer answers would delay tokens.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, body).into_response()
}

/// Creates a stream of events for a viewer, until its client leaves or the server stops.
pub(super) fn view(
    app: &App,
    events: impl Stream<Item = Bytes> + Send + 'static,
) -> Result<Response, Failure> {
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
    Ok(response(Body::from_stream(events)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(data: &str) -> String {
        let mut out = BytesMut::new();
        write_event(&mut out, data);
        String::from_utf8(out.to_vec()).expect("UTF-8")
    }

    #[test]
    fn an_event_is_one_data_line_and_a_blank_one() {
        assert_eq!(event(r#"{"a": "é"}"#), "data: {\"a\": \"é\"}\n\n");
        assert_eq!(event(""), "data: \n\n");
    }

    #[test]
    fn no_text_breaks_the_framing() {
        assert_eq!(
            event("a\nb\r\nc\rid: 7\n\nend"),
            "data: a\ndata: b\ndata: c\ndata: id: 7\ndata: \ndata: end\n\n"
        );
    }

    #[test]
    fn a_named_event_has_its_name_in_front() {
        let mut out = BytesMut::new();
        write_named_event(&mut out, "ping", "{}");
        assert_eq!(&out[..], b"event: ping\ndata: {}\n\n");
    }
}
