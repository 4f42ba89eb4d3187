//! The socket of a connection, between the client and the HTTP library. It records when bytes
//! arrive and leave. It outlives the library's use of it, so that the client gets an explanation
//! when the connection ends.

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

/// A stream of bytes from and to a client, plain or through TLS.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub(super) struct Socket {
    pub(super) stream: Box<dyn Stream>,
    pub(super) connection: Arc<Connection>,
    /// True for HTTP/2; `None` before the first bytes are written.
    pub(super) is_http2: Option<bool>,
    /// True while the client has not taken all written bytes.
    pub(super) blocked: bool,
    /// Receives the stream when the library drops the socket, if it can still be written to.
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
        // An HTTP/2 server begins with a frame when it has received the client's preface.
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
            // Fails if the receiving task was aborted.
            let _ = owner.send(stream);
        }
    }
}
