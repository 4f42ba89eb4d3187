//! The packets of one stream, as they leave a session.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::stream::Stream;

use crate::{events::Wake, packet::Packet};

use super::shared::Shared;

/// The packets of one stream of a session; ends when the stream is closed or the session has ended.
///
/// Its queue is bounded: while it is full, the node that writes it does not run, and so on back to where the packets come
/// from. Dropping it lets the session throw the rest away.
pub struct OutputStream {
    shared: Arc<Shared>,
    index: usize,
}

impl OutputStream {
    /// The most packets that wait for the reader, unless one call of a node emits more: enough that session and reader seldom
    /// wait for each other, little enough that a slow reader is noticed.
    pub const CAPACITY: usize = 16;

    pub(super) fn new(shared: Arc<Shared>, index: usize) -> Self {
        Self { shared, index }
    }

    /// The next packet.
    pub async fn next(&mut self) -> Option<Packet> {
        std::future::poll_fn(|cx| self.poll_packet(cx)).await
    }

    /// The next packet, if one is there now.
    pub fn try_next(&mut self) -> Option<Packet> {
        self.take(None)
    }

    fn poll_packet(&mut self, cx: &Context<'_>) -> Poll<Option<Packet>> {
        match self.take(Some(cx)) {
            Some(packet) => Poll::Ready(Some(packet)),
            None if self.shared.lock().outputs[self.index].closed => {
                // It may have been closed with packets since the look before.
                Poll::Ready(self.take(None))
            }
            None => Poll::Pending,
        }
    }

    fn take(&mut self, cx: Option<&Context<'_>>) -> Option<Packet> {
        let mut state = self.shared.lock();
        let output = &mut state.outputs[self.index];
        let packet = output.packets.pop_front();
        if packet.is_none() {
            output.reader = cx.map(|cx| cx.waker().clone());
            return None;
        }
        // Woken at half, the session fills the queue in one go instead of packet by packet.
        let mut wake = Wake(None);
        if output.full && output.packets.len() <= Self::CAPACITY / 2 {
            output.full = false;
            wake = Wake(state.waker.take());
        }
        drop(state);
        drop(wake);
        packet
    }
}

impl Stream for OutputStream {
    type Item = Packet;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Packet>> {
        self.poll_packet(cx)
    }
}

impl Drop for OutputStream {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let output = &mut state.outputs[self.index];
        output.abandoned = true;
        let packets = std::mem::take(&mut output.packets);
        let wake = Wake(if output.full {
            state.waker.take()
        } else {
            None
        });
        drop(state);
        drop(packets);
        drop(wake);
    }
}

impl std::fmt::Debug for OutputStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OutputStream({})", self.index)
    }
}
