//! The socket of a connection, between the client and the HTTP library: it notes when a head
//! begins, answers a head that does not come to its end, and closes so that a client that is still
//! sending can read why.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

use super::{
    refusal::Refusals,
    stream::Stream,
    watch::{Connection, Verdict},
};

/// What a client of HTTP/2 sends first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long a client that is still sending is listened to after the answer, so that it reads that
/// and not a reset.
const LINGER: Duration = Duration::from_secs(1);
/// Reads before others have their turn.
const READS: usize = 32;

pub(super) struct Socket {
    stream: Stream,
    connection: Arc<Connection>,
    refusals: Arc<Refusals>,
    /// How much of HTTP/2's preface came; `None` when that is decided.
    preface: Option<usize>,
    /// Whether the client has not taken all that was written to it.
    blocked: bool,
    ended: bool,
    closing: Closing,
}

enum Closing {
    Open,
    Lingers(Pin<Box<Sleep>>),
    Closed,
}

impl Socket {
    pub(super) fn new(
        stream: Stream,
        connection: Arc<Connection>,
        refusals: Arc<Refusals>,
    ) -> Self {
        Self {
            stream,
            connection,
            refusals,
            preface: Some(0),
            blocked: false,
            ended: false,
            closing: Closing::Open,
        }
    }

    /// Looks whether the first bytes are HTTP/2's.
    fn look(&mut self, bytes: &[u8]) {
        let Some(came) = self.preface else { return };
        let rest = &PREFACE[came..];
        let compared = rest.len().min(bytes.len());
        if rest[..compared] != bytes[..compared] {
            self.preface = None;
        } else if compared == rest.len() {
            self.preface = None;
            self.connection.is_http2();
        } else {
            self.preface = Some(came + compared);
        }
    }

    fn wrote(&mut self, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let (true, Poll::Ready(Ok(bytes))) = (self.blocked, &outcome) {
            self.connection.read_more(*bytes as u64);
        }
        self.blocked = outcome.is_pending();
        outcome
    }

    /// Discards input until the client ends or time is up.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Closing::Lingers(until) = &mut self.closing else {
            return Poll::Ready(Ok(()));
        };
        if until.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        let mut scratch = [0; 4 << 10];
        for _ in 0..READS {
            let mut buffer = ReadBuf::new(&mut scratch);
            // An error is an end, too.
            let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.connection.verdict() == Verdict::Late {
            if !this.blocked {
                // There is room for it: nothing waits to be taken.
                let _ = Pin::new(&mut this.stream).poll_write(cx, &this.refusals.late_head);
                let _ = Pin::new(&mut this.stream).poll_flush(cx);
            }
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        let came = &buffer.filled()[before..];
        if came.is_empty() {
            this.ended = true;
        } else {
            this.connection.received();
            this.look(came);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.wrote(outcome)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_write_vectored(cx, parts);
        this.wrote(outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Closing::Open = this.closing {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
            this.closing = if this.connection.may_be_sending() && !this.ended {
                Closing::Lingers(Box::pin(tokio::time::sleep(LINGER)))
            } else {
                Closing::Closed
            };
        }
        ready!(this.poll_linger(cx))?;
        this.closing = Closing::Closed;
        Poll::Ready(Ok(()))
    }
}
