//! A session's packets as a stream of events. However it ends, the client can tell: `[DONE]`, or
//! one event with an error.

use std::{convert::Infallible, time::Duration};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt as _, stream};
use graphmill_calculators::{http::dialect::Dialect, payload::HttpResponse};

use crate::{
    errors::{Cause, Failure},
    http::{
        dialect_errors, sse,
        timings::{self, Timings},
    },
    keys::Settlement,
    run::{Answer, Entry},
};

/// How a stream is written.
pub(super) struct Form {
    /// The longest silence.
    pub(super) keep_alive: Duration,
    /// How a failure is told.
    pub(super) dialect: Option<&'static dyn Dialect>,
    /// Whether its end tells what it took.
    pub(super) with_timings: bool,
}

/// Most bytes in one write, where more events wait: a client that reads slowly must not make this
/// buffer grow.
const WRITE_BYTES: usize = 16 << 10;

/// The body of an answer whose first packet is `first`. Dropping it ends the session.
pub(super) fn body(
    first: HttpResponse,
    answer: Answer,
    (entry, settlement): (Entry, Option<Settlement>),
    form: Form,
) -> Body {
    let events = Events {
        next: Some(first),
        answer,
        entry,
        _settlement: settlement,
        form,
        named: 0,
    };
    Body::from_stream(stream::unfold(Some(events), |events| async move {
        Some(events?.write().await)
    }))
}

struct Events {
    /// The packet to write next, where it has been taken already.
    next: Option<HttpResponse>,
    answer: Answer,
    entry: Entry,
    _settlement: Option<Settlement>,
    form: Form,
    /// Events with names so far.
    named: u64,
}

/// What one write of a body makes, and what is left to write from.
type Written = (Result<Bytes, Infallible>, Option<Events>);

impl Events {
    /// Writes what is there, at least one event; a comment if nothing comes for long.
    async fn write(mut self) -> Written {
        let mut out = BytesMut::new();
        let mut packet = match self.next.take() {
            Some(first) => Ok(Some(first)),
            None => match tokio::time::timeout(self.form.keep_alive, self.answer.next()).await {
                Ok(packet) => packet,
                Err(_) => return (Ok(Bytes::from_static(sse::PING)), Some(self)),
            },
        };
        loop {
            match packet {
                Ok(Some(HttpResponse::Event(data))) => {
                    self.entry.answers();
                    sse::write_event(&mut out, &data);
                }
                Ok(Some(HttpResponse::NamedEvent { name, data })) => {
                    self.entry.answers();
                    sse::write_named_event(&mut out, name, &data);
                    self.named += 1;
                }
                Ok(Some(HttpResponse::End)) => return self.end(out).await,
                Ok(Some(HttpResponse::Done)) => {
                    sse::write_done(&mut out);
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
            match self.answer.next().now_or_never() {
                Some(ready) => packet = ready,
                None => break,
            }
        }
        (Ok(out.freeze()), Some(self))
    }

    async fn end(mut self, mut out: BytesMut) -> Written {
        if self.form.with_timings
            && let Some(summary) = self.answer.summary().await
        {
            write_timings(&mut out, &Timings::new(&self.entry, Some(summary)));
        }
        (Ok(out.freeze()), None)
    }

    fn fail(self, mut out: BytesMut, failure: &Failure) -> Written {
        self.entry.failed(failure);
        let place = (&*self.entry.0.id, self.named);
        dialect_errors::write_failure(self.form.dialect, &mut out, failure, place);
        if self.form.with_timings {
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
