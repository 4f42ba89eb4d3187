//! Bodies of requests and answers, with time limits.
//!
//! The timers of tower-http restart with each frame, or allow the same time for each length. The
//! first never ends a body that comes byte by byte; the second ends a long body that comes fast.
//! Neither notices a client that does not read.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use axum::{
    BoxError,
    body::{Body, Bytes, HttpBody},
};
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep_until};

use super::{
    connection::{Connection, Exchange},
    connections::Answering,
    limits::{BODY_BYTES_A_SECOND, time_earned},
};

/// Time to wait for a body even after the deadline, as a body that is on its way is not the cause
/// of the delay.
pub(crate) const ON_ITS_WAY: Duration = Duration::from_millis(25);

/// Body of a request. It fails if it takes too long.
pub(super) struct Upload {
    pub(super) body: Incoming,
    pub(super) connection: Arc<Connection>,
    pub(super) exchange: Arc<Exchange>,
    /// Deadline of the answer, as far as the head sets one.
    pub(super) deadline: Option<Instant>,
    /// Time when reading started; `None` before that.
    pub(super) began: Option<Instant>,
    pub(super) came: u64,
    pub(super) ended: bool,
    /// Timer; `None` if the body arrived with the head.
    pub(super) timer: Option<Pin<Box<Sleep>>>,
}

impl Upload {
    /// Returns the time by which the rest must arrive.
    fn due(&mut self) -> Instant {
        let began = *self.began.get_or_insert_with(Instant::now);
        let limit = self.connection.limits.body;
        let due = began + limit + time_earned(self.came, BODY_BYTES_A_SECOND);
        self.deadline
            .map_or(due, |deadline| due.min(deadline.max(began + ON_ITS_WAY)))
    }

    /// Returns true if the body is late. Otherwise, the task is woken at the due time.
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        let due = self.due().into();
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        // The timer is reset only after it has fired, so that received bytes cost nothing.
        while timer.as_mut().poll(cx).is_ready() {
            if timer.deadline() >= due {
                return true;
            }
            timer.as_mut().reset(due);
        }
        false
    }
}

impl HttpBody for Upload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        let is_limited = !this.exchange.lock().is_open_ended;
        let is_late = match &frame {
            Poll::Ready(Some(Ok(frame))) => {
                this.came += frame.data_ref().map_or(0, |data| data.len() as u64);
                // A body that comes byte by byte and is polled rarely is never pending.
                is_limited && Instant::now() >= this.due()
            }
            Poll::Ready(_) => {
                this.ended = true;
                this.exchange.lock().uploads = None;
                false
            }
            Poll::Pending => {
                if this.timer.is_none() {
                    this.exchange.lock().uploads = Some(Instant::now());
                }
                is_limited && this.is_late(cx)
            }
        };
        if is_late {
            this.exchange.lock().is_late = true;
            return Poll::Ready(Some(Err("the body did not arrive in time".into())));
        }
        frame.map(|frame| frame.map(|it| it.map_err(Into::into)))
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
        self.exchange.lock().uploads = None;
        if !self.ended && !self.body.is_end_stream() {
            self.connection.leaves_body();
        }
    }
}

/// Body of an answer. It records how long the client takes to read.
pub(super) struct Download {
    pub(super) body: Body,
    pub(super) answering: Answering,
}

impl HttpBody for Download {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let (this, now) = (&mut *self, Instant::now());
        let Answering { exchange, .. } = &this.answering;
        exchange.record_read(this.answering.connection.limits.write, now);
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            exchange.record_wait(frame.data_ref().map_or(0, |data| data.len() as u64), now);
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
