//! The bodies of a request and of its answer, as the listener watches them.

use std::{
    pin::Pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    BoxError,
    body::{Body, Bytes, HttpBody},
};
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use super::{
    connections::RequestPlace,
    limits::BODY_BYTES_A_SECOND,
    watch::{Connection, Exchange, Patience},
};

/// How long a body is waited for even when the deadline has passed: where it is on its way, it is
/// not what was late.
pub(crate) const ON_ITS_WAY: Duration = Duration::from_millis(25);

/// A request that is being answered; it has ended when this is dropped.
pub(super) struct Guard {
    /// None for one that is refused.
    pub(super) _place: Option<RequestPlace>,
    pub(super) connection: Arc<Connection>,
    pub(super) exchange: Arc<Exchange>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.connection.end(&self.exchange);
    }
}

/// What the client sends. It fails if that takes too long.
pub(super) struct Upload {
    body: Incoming,
    connection: Arc<Connection>,
    exchange: Arc<Exchange>,
    limit: Duration,
    /// When the answer becomes worthless, as far as the head says.
    deadline: Option<Instant>,
    /// Since when it is being read.
    began: Option<Instant>,
    came: u64,
    ended: bool,
    /// There is none where the body has come with the head.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Upload {
    pub(super) fn new(
        body: Incoming,
        connection: Arc<Connection>,
        exchange: Arc<Exchange>,
        limit: Duration,
        deadline: Option<Instant>,
    ) -> Self {
        Self {
            body,
            connection,
            exchange,
            limit,
            deadline,
            began: None,
            came: 0,
            ended: false,
            timer: None,
        }
    }

    /// Until when the rest has to come.
    fn due(&mut self) -> Instant {
        let began = *self.began.get_or_insert_with(Instant::now);
        let earned = Duration::from_millis(self.came / (BODY_BYTES_A_SECOND / 1_000));
        let due = began + self.limit + earned;
        self.deadline
            .map_or(due, |deadline| due.min(deadline.max(began + ON_ITS_WAY)))
    }

    /// Whether it took too long.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.timer.is_none() {
            self.exchange
                .uploads
                .store(self.connection.clock.now(), Relaxed);
        }
        if self.exchange.open_ended.load(Relaxed) {
            return Poll::Pending;
        }
        let due = self.due();
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        // Only a timer that has run out is set again: bytes that came cost nothing.
        while timer.as_mut().poll(cx).is_ready() {
            if timer.deadline() >= due {
                return Poll::Ready(());
            }
            timer.as_mut().reset(due);
        }
        Poll::Pending
    }
}

impl HttpBody for Upload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.came += frame.data_ref().map_or(0, |data| data.len() as u64);
                // What comes a byte at a time is never pending when it is asked for seldom.
                if self.exchange.open_ended.load(Relaxed) || Instant::now() < self.due() {
                    return Poll::Ready(Some(Ok(frame)));
                }
            }
            Poll::Ready(end) => {
                self.ended = true;
                self.exchange.uploads.store(0, Relaxed);
                return Poll::Ready(end.map(|failed| failed.map_err(Into::into)));
            }
            Poll::Pending => {
                if self.poll_late(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        }
        self.exchange.late.store(true, Relaxed);
        Poll::Ready(Some(Err("the body did not come in time".into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.exchange.uploads.store(0, Relaxed);
        if !self.ended && !self.body.is_end_stream() {
            self.connection.leaves_unread();
        }
    }
}

/// What the client is sent. It notes how long the client takes to read.
pub(super) struct Download {
    pub(super) body: Body,
    pub(super) guard: Guard,
    pub(super) patience: Patience,
}

impl HttpBody for Download {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        let clock = &this.guard.connection.clock;
        this.patience.took(clock, &this.guard.exchange);
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
            this.patience.ask(bytes, clock, &this.guard.exchange);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
