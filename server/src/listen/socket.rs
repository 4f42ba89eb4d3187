//! The socket of a connection, between the client and the HTTP library: it notes when bytes come and
//! go, and outlives the library's use of it, so that a client can be told why the connection ends.

use std::{
    io::{self, IoSlice},
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf, empty},
    sync::oneshot,
};

use super::connection::Connection;

/// Bytes from and to a client, plain or through TLS.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub(super) struct Socket {
    pub(super) stream: Box<dyn Stream>,
    pub(super) connection: Arc<Connection>,
    /// Known with the first bytes that are written.
    pub(super) is_http2: Option<bool>,
    /// Set while the client has not taken all that was written to it.
    pub(super) blocked: bool,
    /// Takes the stream when the library drops the socket, if something can be written to it then.
    pub(super) owner: Option<oneshot::Sender<Box<dyn Stream>>>,
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        if buffer.filled().len() > before && self.is_http2 != Some(true) {
            self.connection.received();
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
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // A server of HTTP/2 begins with a frame, as soon as it has the preface of the client.
        if self.is_http2.is_none() {
            let is_http1 = parts.iter().any(|part| part.starts_with(b"HTTP/"));
            self.is_http2 = Some(!is_http1);
            if !is_http1 {
                self.connection.has_frames();
            }
        }
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        if let (true, Poll::Ready(Ok(bytes))) = (self.blocked, &outcome) {
            self.connection.read_more(*bytes as u64);
        }
        self.blocked = outcome.is_pending();
        outcome
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let (false, Some(owner)) = (self.blocked, self.owner.take()) {
            let stream = mem::replace(&mut self.stream, Box::new(empty()));
            // Nobody takes it from a task that was aborted.
            let _ = owner.send(stream);
        }
    }
}
