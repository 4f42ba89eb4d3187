//! Request bodies and their memory budget.
//!
//! The bytes of all bodies share one budget. They count as they arrive, so a client that announces
//! much and sends little holds little. They are released when nothing refers to the body any more:
//! graphs drop it after reading it, long before a stream ends. If the answer refers to the body,
//! its bytes are released when the graph has ended. The bytes of a message in a stream are released
//! when the nodes have taken its packets. So an answer that its client does not read holds none of
//! the budget.
//!
//! Where several keys are in use, each can hold half. A body that does not fit is refused at once.
//! Nothing waits for memory, because two half-read bodies would wait for each other.

mod encoding;
mod lease;

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{
    body::{Body, HttpBody as _},
    http::{Extensions, HeaderMap, header},
};
use bytes::Bytes;
use graphmill_engine::{Executors, Lane};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;

use crate::{
    beside::beside,
    errors::{Cause, Failure},
    keys::Caller,
    owner::Owner,
};
use encoding::Encoding;
pub(crate) use lease::{Lease, UntilRead};

/// The memory budget of all bodies.
#[derive(Debug)]
pub(crate) struct Bodies {
    /// Maximum size of a body, in bytes.
    each: usize,
    /// Maximum size of all bodies together, in bytes.
    pub(crate) all: usize,
    taken: Mutex<BodyUsage>,
    /// Executor for long work on bodies.
    lane: Lane,
}

/// Bytes in memory, in total and by key.
#[derive(Debug, Default)]
struct BodyUsage {
    all: usize,
    by_key: HashMap<Arc<str>, usize>,
}

/// Share of the budget that the bodies of one request hold.
#[derive(Debug)]
pub(crate) struct Share {
    bodies: Arc<Bodies>,
    /// Key whose requests share a limit; `None` without keys.
    key: Option<Arc<str>>,
    /// Tenant that takes turns with others on the executor.
    owner: Option<Arc<str>>,
    bytes: Mutex<usize>,
}

/// Size above which a body counts as large. A quarter of the budget is closed to large bodies, so
/// that large ones that arrive slowly leave memory for usual requests.
const SMALL_BYTES: usize = 64 << 10;

/// Time for reading and discarding the rest of a refused body. A client that is still sending when
/// its connection is closed may never see the error.
const DRAIN: Duration = Duration::from_secs(1);

impl Bodies {
    /// Creates a budget of `all` bytes, of which one body can have `each`. Long work on bodies runs
    /// on `executors`.
    pub(crate) fn new(each: usize, all: usize, executors: &Executors) -> Arc<Self> {
        Arc::new(Self {
            lane: executors.cpu(),
            each,
            all: all.max(each),
            taken: Mutex::default(),
        })
    }

    /// Returns the number of bytes that all bodies have in memory.
    pub(crate) fn taken(&self) -> usize {
        self.taken.lock().all
    }

    /// Returns the share of the request with these extensions, empty at first.
    pub(crate) fn share(self: &Arc<Self>, extensions: &Extensions) -> Arc<Share> {
        let caller = extensions.get::<Arc<Caller>>();
        let key = caller.and_then(|caller| caller.rival()).cloned();
        let owner = Owner::from_extensions(extensions);
        self.share_of(key, owner.map(|owner| owner.name()))
    }

    /// Returns an empty share for a key. Long work on the bodies counts for `owner`.
    pub(crate) fn share_of(
        self: &Arc<Self>,
        key: Option<Arc<str>>,
        owner: Option<Arc<str>>,
    ) -> Arc<Share> {
        Arc::new(Share {
            bodies: Arc::clone(self),
            key,
            owner,
            bytes: Mutex::default(),
        })
    }

    fn too_long(&self) -> Failure {
        let most = size(self.each);
        let why = format!("the body is longer than {most} (--max_body_bytes)");
        Failure::new(Cause::BodyTooLarge, why)
    }

    fn take(&self, key: Option<&Arc<str>>, more: usize, room: usize) -> Result<(), Failure> {
        let mut taken = self.taken.lock();
        if room.checked_sub(more).is_none_or(|left| taken.all > left) {
            let most = size(self.all);
            let why = format!(
                "request bodies have reached the limit of {most} in memory (--max_bodies_bytes): try again"
            );
            return Err(Failure::new(Cause::BodiesFull, why));
        }
        if let Some(key) = key {
            let own = taken.by_key.entry(Arc::clone(key)).or_default();
            if *own + more > (self.all / 2).max(self.each) {
                let why = format!(
                    "request bodies of the key `{key}` have reached its limit, with {} in memory (--max_bodies_bytes): try again",
                    size(*own)
                );
                return Err(Failure::new(Cause::BodiesFull, why));
            }
            *own += more;
        }
        taken.all += more;
        Ok(())
    }

    fn give_back(&self, key: Option<&Arc<str>>, bytes: usize) {
        let mut taken = self.taken.lock();
        taken.all -= bytes;
        if let Some(key) = key
            && let Some(own) = taken.by_key.get_mut(key)
        {
            *own -= bytes;
            if *own == 0 {
                taken.by_key.remove(key);
            }
        }
    }
}

impl Share {
    /// Releases the bytes of the request, because its graph has read it. Parts that remain belong
    /// to the answer.
    pub(crate) fn is_read(&self) {
        self.give_back(usize::MAX);
    }

    /// Runs long work for the request outside of the threads that serve requests. `panicked` is the
    /// error message if the work panics.
    pub(crate) async fn beside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        panicked: &'static str,
    ) -> Result<T, Failure> {
        beside(&self.bodies.lane, self.owner.as_ref(), work, panicked).await
    }

    /// Releases the bytes of a part of the request, unless they were released before.
    fn give_back(&self, bytes: usize) {
        let bytes = {
            let mut own = self.bytes.lock();
            let bytes = bytes.min(*own);
            *own -= bytes;
            bytes
        };
        self.bodies.give_back(self.key.as_ref(), bytes);
    }

    /// Returns an empty lease, for a body that has not begun to arrive.
    pub(crate) fn lease(self: &Arc<Self>) -> Lease {
        Lease::new(Arc::clone(self))
    }

    /// Reads a body to its end. `headers` are the headers of its request.
    pub(crate) async fn read(
        self: &Arc<Self>,
        headers: &HeaderMap,
        mut body: Body,
    ) -> Result<Bytes, Failure> {
        let announced = body.size_hint().exact();
        let too_long = announced.is_some_and(|bytes| bytes > self.bodies.each as u64);
        if too_long && headers.contains_key(header::EXPECT) {
            // The client waits for `100 Continue` before it sends the body, and gets this error
            // instead.
            return Err(self.bodies.too_long());
        }
        let read = match Encoding::read(headers) {
            _ if too_long => Err(self.bodies.too_long()),
            Ok(encoding) => match (self.collect(&mut body, announced).await, encoding) {
                (Ok(bytes), Some(encoding)) => self.decode(bytes, encoding).await,
                (read, _) => read,
            },
            Err(failure) => Err(failure),
        };
        if read.is_err() {
            let drained = async { while let Some(Ok(_)) = body.frame().await {} };
            let _ = tokio::time::timeout(DRAIN, drained).await;
        }
        read
    }

    /// Decompresses a body. The result has the size limit of a body.
    async fn decode(self: &Arc<Self>, bytes: Bytes, encoding: Encoding) -> Result<Bytes, Failure> {
        let mut lease = self.lease();
        let most = self.bodies.each;
        // A few bytes can take long to decompress.
        let decode = move || {
            let mut decoded = encoding.decode(&bytes, |plain, more| {
                lease.take(more.len())?;
                lease.append(plain, more, most);
                Ok(())
            })?;
            decoded.shrink_to_fit();
            Ok(lease.keeps(decoded.into()))
        };
        self.beside(decode, "the body could not be decoded").await?
    }

    async fn collect(
        self: &Arc<Self>,
        body: &mut Body,
        announced: Option<u64>,
    ) -> Result<Bytes, Failure> {
        let mut lease = self.lease();
        let mut first: Option<Bytes> = None;
        let mut rest: Vec<u8> = Vec::new();
        let most = announced.map_or(self.bodies.each, |bytes| bytes as usize);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                let why = format!("the body could not be read: {error}");
                Failure::new(Cause::BadRequest, why)
            })?;
            let Ok(data) = frame.into_data() else {
                continue; // trailers
            };
            lease.take(data.len())?;
            match first.take() {
                // A body usually arrives in one piece, which is not copied.
                None if rest.is_empty() => first = Some(data),
                before => {
                    lease.append(&mut rest, &before.unwrap_or_default(), most);
                    lease.append(&mut rest, &data, most);
                }
            }
        }
        let bytes = first.unwrap_or_else(|| {
            rest.shrink_to_fit();
            rest.into()
        });
        Ok(lease.keeps(bytes))
    }
}

/// Formats a number of bytes for people.
fn size(bytes: usize) -> String {
    match bytes {
        _ if bytes > 0 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes > 0 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Body;
    use futures_util::stream;

    use super::*;

    fn pieces(pieces: &[usize]) -> Body {
        let piece = |bytes: &usize| Ok::<_, Infallible>(Bytes::from(vec![b'x'; *bytes]));
        Body::from_stream(stream::iter(pieces.iter().map(piece).collect::<Vec<_>>()))
    }

    async fn read(bodies: &Arc<Bodies>, body: Body) -> Result<Bytes, Failure> {
        let share = bodies.share_of(None, None);
        share.read(&HeaderMap::new(), body).await
    }

    #[tokio::test]
    async fn bytes_are_taken_as_they_come_and_given_back_with_the_last_use() {
        let bodies = Bodies::new(100, 1_000, &Executors::new());
        for body in [
            Body::from(vec![b'x'; 60]),
            pieces(&[60]),
            pieces(&[10, 0, 20, 30]),
        ] {
            let bytes = read(&bodies, body).await.expect("it fits");
            let use_of_it = bytes.slice(5..8);
            assert_eq!((bytes.len(), bodies.taken()), (60, 60));
            drop(bytes);
            assert_eq!(bodies.taken(), 60);
            drop(use_of_it);
            assert_eq!(bodies.taken(), 0);
        }
    }

    #[tokio::test]
    async fn a_long_body_is_refused_whether_it_says_so_or_not() {
        let bodies = Bodies::new(1 << 10, 1 << 20, &Executors::new());
        for body in [Body::from(vec![b'x'; 1_025]), pieces(&[1_000, 25])] {
            let failure = read(&bodies, body).await.expect_err("too long");
            assert_eq!(failure.cause, Cause::BodyTooLarge);
            assert_eq!(
                failure.message,
                "the body is longer than 1 KiB (--max_body_bytes)"
            );
        }
        assert_eq!(bodies.taken(), 0);
    }

    #[tokio::test]
    async fn what_finds_no_room_is_refused_and_does_not_wait() {
        let bodies = Bodies::new(100, 150, &Executors::new());
        let held = read(&bodies, pieces(&[100])).await.expect("it fits");
        let failure = read(&bodies, pieces(&[30, 30])).await.expect_err("full");
        assert_eq!(failure.cause, Cause::BodiesFull);
        assert_eq!(bodies.taken(), 100);
        assert!(read(&bodies, pieces(&[30, 20])).await.is_ok());
        drop(held);
        assert!(read(&bodies, pieces(&[30, 30])).await.is_ok());
    }

    #[tokio::test]
    async fn large_bodies_leave_room_for_small_ones() {
        let bodies = Bodies::new(1 << 20, 4 << 20, &Executors::new());
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(read(&bodies, pieces(&[1 << 20])).await.expect("it fits"));
        }
        assert!(read(&bodies, pieces(&[SMALL_BYTES + 1])).await.is_err());
        for _ in 0..16 {
            held.push(read(&bodies, pieces(&[SMALL_BYTES])).await.expect("small"));
        }
        assert!(read(&bodies, pieces(&[1])).await.is_err());
    }

    #[tokio::test]
    async fn a_body_has_no_more_memory_than_bytes() {
        let bodies = Bodies::new(1 << 20, 1 << 20, &Executors::new());
        let (mut lease, mut buffer) = (bodies.share_of(None, None).lease(), Vec::new());
        for (more, most, room) in [
            (10, 1_000, 10),
            (1, 1_000, 20),
            (50, 70, 61),
            (9, 70, 70),
            (SMALL_BYTES, 1 << 20, 2 * (SMALL_BYTES + 70)),
            (SMALL_BYTES, 1 << 20, 2 * (SMALL_BYTES + 70)),
            (SMALL_BYTES, 1 << 20, 2 * (3 * SMALL_BYTES + 70)),
        ] {
            lease.take(more).expect("it fits");
            lease.append(&mut buffer, &vec![0; more], most);
            assert_eq!(buffer.capacity(), room);
            assert!(buffer.len() <= SMALL_BYTES || room <= lease.claimed_to);
        }
        let read = read(&bodies, pieces(&[100, 1, 1])).await.expect("it fits");
        assert_eq!(&read[..], [b'x'; 102]);
    }
}
