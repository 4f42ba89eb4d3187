//! Streams of events from a session's packets. The end is always visible to the client: `[DONE]`, a
//! final event of the dialect, or an error event.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{body::Body, response::Response};
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt as _, stream};
use graphmill_calculators::{
    http::dialect::{Dialect, Framing},
    payload::HttpResponse,
};

use crate::{
    conversations::Listener,
    errors::{Cause, Failure},
    http::{
        dialect_errors, frames,
        timings::{self, Timings},
    },
    keys::Settlement,
    run::{Facts, GraphRun},
};

/// Maximum number of bytes in one write while more events wait, so that a slow client does not make
/// the buffer grow.
const WRITE_BYTES: usize = 16 << 10;

/// Events of an answer. Dropping them ends the session.
pub(super) struct AnswerEvents {
    /// Packet to write next, if it was already taken from the session.
    pub(super) next: Option<HttpResponse>,
    /// Receives the data of events, too, for a stored conversation.
    pub(super) listener: Option<Listener>,
    pub(super) run: GraphRun,
    pub(super) entry: Arc<Facts>,
    pub(super) _settlement: Option<Settlement>,
    /// Maximum silence before a comment is sent.
    pub(super) keep_alive: Duration,
    /// Dialect for failures; `None` uses OpenAI's form.
    pub(super) dialect: Option<&'static dyn Dialect>,
    pub(super) framing: Framing,
    /// True to add timings to the end of the stream.
    pub(super) with_timings: bool,
    /// Number of named events so far.
    pub(super) named: u64,
}

/// The result of a write, and the events that are left.
type WriteOutcome = (Result<Bytes, Infallible>, Option<AnswerEvents>);

impl AnswerEvents {
    /// Creates the response that streams the events.
    pub(super) fn into_response(self) -> Response {
        let framing = self.framing;
        let write = |events: Option<Self>| async move { Some(events?.write().await) };
        let body = stream::unfold(Some(self), write);
        frames::response(framing, Body::from_stream(body))
    }

    /// Writes the available events, at least one; a comment after a long silence.
    async fn write(mut self) -> WriteOutcome {
        let mut out = BytesMut::new();
        let waited = match self.next.take() {
            Some(first) => Ok(Ok(Some(first))),
            None => tokio::time::timeout(self.keep_alive, self.run.next_response()).await,
        };
        let Ok(mut packet) = waited else {
            let ping = Bytes::from_static(frames::ping(self.framing));
            return (Ok(ping), Some(self));
        };
        loop {
            match packet {
                Ok(Some(HttpResponse::Event(data))) => {
                    self.entry.answers();
                    if let Some(listener) = &mut self.listener {
                        listener(data.as_bytes());
                    }
                    frames::write(self.framing, &mut out, None, &data);
                }
                Ok(Some(HttpResponse::NamedEvent { name, data })) => {
                    self.entry.answers();
                    frames::write(self.framing, &mut out, Some(name), &data);
                    self.named += 1;
                }
                Ok(Some(HttpResponse::End)) => return self.end(out).await,
                Ok(Some(HttpResponse::Done)) => {
                    frames::write_done(self.framing, &mut out);
                    return self.end(out).await;
                }
                Ok(Some(HttpResponse::Header { .. })) => {} // headers have been sent
                Ok(Some(HttpResponse::Body { .. })) => {
                    let failure = no_answer("a whole body inside a stream of events");
                    return self.fail(out, &failure);
                }
                Ok(None) => return self.fail(out, &no_answer("no end")),
                Err(failure) => return self.fail(out, &failure),
            }
            if out.len() >= WRITE_BYTES {
                break;
            }
            match self.run.next_response().now_or_never() {
                Some(ready) => packet = ready,
                None => break,
            }
        }
        (Ok(out.freeze()), Some(self))
    }

    async fn end(mut self, mut out: BytesMut) -> WriteOutcome {
        if self.with_timings
            && let Some(summary) = self.run.finish().await
        {
            let timings = Timings::new(&self.entry, Some(summary)).to_json();
            frames::write(self.framing, &mut out, Some(timings::NAME), &timings);
        }
        (Ok(out.freeze()), None)
    }

    fn fail(self, mut out: BytesMut, failure: &Failure) -> WriteOutcome {
        self.entry.failed(failure);
        let place = (&*self.entry.id, self.named);
        dialect_errors::write_failure(self.dialect, &mut out, failure, place);
        if self.with_timings {
            let timings = Timings::new(&self.entry, None).to_json();
            frames::write(self.framing, &mut out, Some(timings::NAME), &timings);
        }
        (Ok(out.freeze()), None)
    }
}

fn no_answer(what: &str) -> Failure {
    Failure::new(Cause::NoAnswer, format!("the graph's answer has {what}"))
}
