//! The packets of one stream that leave a session.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::stream::Stream;

use crate::{events::Wake, packet::Packet};

use super::{
    mailbox::{self, Next},
    shared::SessionState,
};

/// The packets of one stream. Ends when the stream is closed or the session has ended.
///
/// Its queue is bounded. While it is full, the node that writes it does not run, and so on back to
/// the source of the packets. After the reader is dropped, the session discards further packets.
pub struct OutputStream {
    shared: Arc<SessionState>,
    index: usize,
}

impl OutputStream {
    /// Maximum number of packets that wait for the reader, unless one call of a node emits more.
    /// Large enough that session and reader rarely wait for each other, small enough to notice a
    /// slow reader.
    pub const CAPACITY: usize = mailbox::CAPACITY;

    pub(super) fn new(shared: Arc<SessionState>, index: usize) -> Self {
        Self { shared, index }
    }

    /// Waits for the next packet. `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Packet> {
        std::future::poll_fn(|cx| self.take(Some(cx))).await
    }

    /// Returns the next packet, if one is there now.
    pub fn try_next(&mut self) -> Option<Packet> {
        match self.take(None) {
            Poll::Ready(packet) => packet,
            Poll::Pending => None,
        }
    }

    fn take(&mut self, cx: Option<&Context<'_>>) -> Poll<Option<Packet>> {
        let next = self.shared.lock().exchange.next(self.index, cx);
        match next {
            Next::Packet(packet, wake) => {
                drop(Wake(wake));
                Poll::Ready(Some(packet))
            }
            Next::Closed => Poll::Ready(None),
            Next::Empty => Poll::Pending,
        }
    }
}

impl Stream for OutputStream {
    type Item = Packet;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Packet>> {
        self.take(Some(cx))
    }
}

impl Drop for OutputStream {
    fn drop(&mut self) {
        let (packets, wake) = self.shared.lock().exchange.abandon(self.index);
        drop(packets);
        drop(Wake(wake));
    }
}

impl std::fmt::Debug for OutputStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OutputStream({})", self.index)
    }
}
