//! A session's packets as a stream of events. However it ends, the client can tell: `[DONE]`, or
//! one event with an error.

use std::{convert::Infallible, time::Duration};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt as _, stream};
use graphmill_calculators::{
    http::dialect::{Dialect, Framing},
    payload::HttpResponse,
};

use super::lines;
use crate::{
    conversations::Listener,
    errors::{Cause, Failure},
    http::{
        dialect_errors, sse,
        timings::{self, Timings},
    },
    keys::Settlement,
    run::{Entry, Run},
};

/// Most bytes in one write, where more events wait: a client that reads slowly must not make this
/// buffer grow.
const WRITE_BYTES: usize = 16 << 10;

/// The events of an answer. Dropping them ends the session.
pub(super) struct Events {
    /// The packet to write next, where it has been taken already.
    pub(super) next: Option<HttpResponse>,
    /// Takes in the data of events, beside the client.
    pub(super) listener: Option<Listener>,
    pub(super) framing: Framing,
    pub(super) run: Run,
    pub(super) entry: Entry,
    pub(super) _settlement: Option<Settlement>,
    /// The longest silence.
    pub(super) keep_alive: Duration,
    /// The form of a failure.
    pub(super) dialect: Option<&'static dyn Dialect>,
    /// True if the end tells what the answer took.
    pub(super) with_timings: bool,
    /// Events with names so far.
    pub(super) named: u64,
}

/// What one write of a body makes, and what is left to write from.
type Written = (Result<Bytes, Infallible>, Option<Events>);

impl Events {
    /// The body of an answer that has them.
    pub(super) fn into_body(self) -> Body {
        Body::from_stream(stream::unfold(Some(self), |events| async move {
            Some(events?.write().await)
        }))
    }

    /// Writes what is there, at least one event; a comment if nothing comes for long.
    async fn write(mut self) -> Written {
        let mut out = BytesMut::new();
        let mut packet = if let Some(first) = self.next.take() {
            Ok(Some(first))
        } else {
            let next = tokio::time::timeout(self.keep_alive, self.run.next_response()).await;
            let Ok(packet) = next else {
                let ping = match self.framing {
                    Framing::Events => sse::PING,
                    Framing::Lines => lines::PING,
                };
                return (Ok(Bytes::from_static(ping)), Some(self));
            };
            packet
        };
        loop {
            match packet {
                Ok(Some(HttpResponse::Event(data))) => {
                    self.entry.answers();
                    if let Some(listener) = &mut self.listener {
                        listener(data.as_bytes());
                    }
                    match self.framing {
                        Framing::Events => sse::write_event(&mut out, &data),
                        Framing::Lines => lines::write(&mut out, &data),
                    }
                }
                Ok(Some(HttpResponse::NamedEvent { name, data })) => {
                    self.entry.answers();
                    sse::write_named_event(&mut out, name, &data);
                    self.named += 1;
                }
                Ok(Some(HttpResponse::End)) => return self.end(out).await,
                Ok(Some(HttpResponse::Done)) => {
                    sse::write_event(&mut out, sse::DONE);
                    return self.end(out).await;
                }
                Ok(Some(HttpResponse::Header { .. })) => {} // too late to have an effect
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

    async fn end(mut self, mut out: BytesMut) -> Written {
        if self.with_timings
            && let Some(summary) = self.run.finish().await
        {
            write_timings(&mut out, &Timings::new(&self.entry, Some(summary)));
        }
        (Ok(out.freeze()), None)
    }

    fn fail(self, mut out: BytesMut, failure: &Failure) -> Written {
        self.entry.failed(failure);
        if let (Framing::Lines, Some(dialect)) = (self.framing, self.dialect) {
            let error = dialect.error(&failure.view(Some(&self.entry.id)));
            lines::write(&mut out, &error.to_string());
        } else {
            let place = (&*self.entry.id, self.named);
            dialect_errors::write_failure(self.dialect, &mut out, failure, place);
        }
        if self.with_timings {
            write_timings(&mut out, &Timings::new(&self.entry, None));
        }
        (Ok(out.freeze()), None)
    }
}

fn write_timings(out: &mut BytesMut, timings: &Timings<'_>) {
    sse::write_named_event(out, timings::NAME, &timings.to_json());
}

fn no_answer(what: &str) -> Failure {
    Failure::new(Cause::NoAnswer, format!("the graph's answer has {what}"))
}
