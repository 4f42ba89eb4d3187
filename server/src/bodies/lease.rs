//! The bytes of one body in the budget of all bodies.

use std::sync::Arc;

use bytes::Bytes;
use graphmill_llm::memory_budget::Claim;

use super::{SMALL_BYTES, Share};
use crate::{beside::claim, errors::Failure};

/// Bytes of the budget, released on drop.
#[derive(Debug)]
pub(crate) struct Lease {
    share: Arc<Share>,
    bytes: usize,
    /// Size that a large body may reach before more memory is claimed.
    pub(super) claimed_to: usize,
    claim: Option<Claim>,
}

impl Lease {
    /// Creates an empty lease on a share.
    pub(super) fn new(share: Arc<Share>) -> Self {
        Self {
            share,
            bytes: 0,
            claimed_to: SMALL_BYTES,
            claim: None,
        }
    }

    /// Claims memory before the buffer of a large body doubles. The announced length is not
    /// claimed, as the client may send less.
    fn claim(&mut self, bytes: usize) -> Result<(), Failure> {
        if bytes <= self.claimed_to {
            return Ok(());
        }
        // The memory of the last claim is in use by now.
        self.claim = None;
        self.claim = Some(claim(2 * bytes as u64)?);
        self.claimed_to = 2 * bytes;
        Ok(())
    }

    /// Adds bytes to the lease, or refuses them.
    pub(crate) fn take(&mut self, more: usize) -> Result<(), Failure> {
        let bytes = self.bytes + more;
        self.check(bytes)?;
        let bodies = Arc::clone(&self.share.bodies);
        let room = if bytes <= SMALL_BYTES {
            bodies.all
        } else {
            (bodies.all - bodies.all / 4).max(bodies.each)
        };
        self.claim(bytes)?;
        bodies.take(self.share.key.as_ref(), more, room)?;
        *self.share.bytes.lock() += more;
        self.bytes = bytes;
        Ok(())
    }

    /// Appends leased bytes to a buffer whose final size is at most `most`. The buffer of a large
    /// body grows only as far as memory was claimed.
    pub(super) fn append(&self, buffer: &mut Vec<u8>, bytes: &[u8], most: usize) {
        let needed = buffer.len() + bytes.len();
        if needed > buffer.capacity() {
            let room = if needed <= SMALL_BYTES {
                2 * buffer.capacity()
            } else {
                self.claimed_to
            };
            buffer.reserve_exact(room.min(most).max(needed) - buffer.len());
        }
        buffer.extend_from_slice(bytes);
    }

    /// Attaches the lease to received bytes: it is released when nothing refers to them.
    pub(crate) fn keeps(self, mut bytes: Bytes) -> Bytes {
        self.keeps_all([&mut bytes]);
        bytes
    }

    /// Attaches the lease to several parts of received bytes: it is released when nothing refers to
    /// any of them.
    pub(crate) fn keeps_all<'a>(
        mut self,
        parts: impl IntoIterator<Item = &'a mut Bytes>,
    ) -> Arc<Share> {
        self.claim = None;
        let (share, lease) = (Arc::clone(&self.share), Arc::new(self));
        for part in parts {
            *part = Bytes::from_owner(BudgetedBytes {
                bytes: std::mem::take(part),
                _lease: Arc::clone(&lease),
            });
        }
        share
    }

    /// Releases all but `bytes` bytes.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let more = self.bytes.saturating_sub(bytes);
        self.bytes -= more;
        self.share.give_back(more);
    }

    /// Returns this lease, and leaves an empty one of the same caller in its place.
    pub(crate) fn next(&mut self) -> Self {
        let Share {
            bodies, key, owner, ..
        } = &*self.share;
        let share = bodies.share_of(key.clone(), owner.clone());
        std::mem::replace(self, share.lease())
    }

    /// Refuses a body whose announced size is above the limit.
    pub(crate) fn check(&self, announced: usize) -> Result<(), Failure> {
        if announced > self.share.bodies.each {
            return Err(self.share.bodies.too_long());
        }
        Ok(())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.share.give_back(self.bytes);
    }
}

/// Marks a request as read on drop.
#[derive(Debug)]
pub(crate) struct UntilRead(pub(crate) Arc<Share>);

impl Drop for UntilRead {
    fn drop(&mut self) {
        self.0.is_read();
    }
}

/// A received body with its lease.
struct BudgetedBytes {
    bytes: Bytes,
    _lease: Arc<Lease>,
}

impl AsRef<[u8]> for BudgetedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
