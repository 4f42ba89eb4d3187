//! The state of a connection, and the limit that it exceeds, if any.
//!
//! A connection is one task. The task, its socket and its requests write here when something begins
//! or ends; another task checks all connections a few times a second and notifies those over a
//! limit. So no connection has timers of its own, and a token costs no more than two stores.

use std::{
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use futures_util::task::AtomicWaker;
use tokio::task::AbortHandle;

use super::limits::{ANSWER_BYTES_A_SECOND, Limits};
use crate::owner::Peer;

/// Milliseconds since a listener was opened, and one more: 0 stands for never.
pub(super) type Millis = u64;

/// The time of a listener.
#[derive(Debug)]
pub(super) struct Clock {
    opened: Instant,
    /// As of the last look at all connections: exact enough for limits of seconds, and read for
    /// each token.
    ticked: AtomicU64,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self {
            opened: Instant::now(),
            ticked: AtomicU64::new(1),
        }
    }

    pub(super) fn now(&self) -> Millis {
        self.opened.elapsed().as_millis() as u64 + 1
    }

    pub(super) fn tick(&self) -> Millis {
        let now = self.now();
        self.ticked.store(now, Relaxed);
        now
    }

    pub(super) fn ticked(&self) -> Millis {
        self.ticked.load(Relaxed)
    }

    /// The end of a millisecond that has begun: what is allowed from it on is not cut short.
    pub(super) fn instant(&self, at: Millis) -> Instant {
        (self.opened + Duration::from_millis(at)).min(Instant::now())
    }
}

/// What a connection is told.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Verdict {
    /// To go on.
    Serve,
    /// To end when its requests have ended.
    Finish,
    /// That the head of its request did not come in time: to say so and end.
    Late,
    /// To end now.
    Cut,
}

/// Rank of a connection that may have to leave for another: a later one leaves sooner.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// It sends bodies.
    Upload,
    /// It sends a head.
    Head,
    /// It reads no answer.
    Unread,
    /// Nothing.
    Idle,
}

/// A connection, as all that works for it sees it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: Peer,
    pub(super) clock: Arc<Clock>,
    waker: AtomicWaker,
    verdict: AtomicU8,
    told: AtomicU64,
    /// Whether the client began with HTTP/2's preface.
    http2: AtomicBool,
    /// Whether a request came.
    served: AtomicBool,
    /// When the first byte of a head came that is not complete.
    head: AtomicU64,
    /// Since when there is no request.
    quiet: AtomicU64,
    /// Whether the client may still send data that will not be read.
    unread: AtomicBool,
    /// Requests that are being answered.
    open: AtomicU32,
    /// The same, one by one: as many as there may be streams. Locked when one begins or ends, and
    /// by the watch.
    exchanges: Mutex<Vec<Arc<Exchange>>>,
}

/// A request and its answer.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// Since when its body is being waited for.
    pub(super) uploads: AtomicU64,
    /// Until when the client has to take what was written; 0 while nothing waits for it.
    pub(super) due: AtomicU64,
    /// Whether its body did not come in time.
    pub(super) late: AtomicBool,
    /// Set when its client did not read the answer in time.
    pub(super) unread: AtomicBool,
    /// Whether its body is a stream that may take as long as it likes.
    pub(super) open_ended: AtomicBool,
    /// Ends it alone: a stream of HTTP/2 is a task.
    task: OnceLock<AbortHandle>,
}

impl Exchange {
    /// Whether the request's body did not come in time.
    pub(crate) fn body_was_late(&self) -> bool {
        self.late.load(Relaxed)
    }

    /// Returns true if the client did not read the answer in time.
    pub(crate) fn is_unread(&self) -> bool {
        self.unread.load(Relaxed)
    }

    /// Says that the body comes for as long as the client has something to say.
    pub(crate) fn is_open_ended(&self) {
        self.open_ended.store(true, Relaxed);
    }

    /// Until when the client has to take what was written, if something waits for it.
    fn due(&self) -> Option<Millis> {
        Some(self.due.load(Relaxed)).filter(|due| *due != 0)
    }

    pub(super) fn is_task(&self, task: AbortHandle) {
        self.task.get_or_init(|| task);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Connection {
    pub(super) fn new(client: Peer, clock: Arc<Clock>) -> Self {
        let now = clock.now();
        Self {
            client,
            clock,
            waker: AtomicWaker::new(),
            verdict: AtomicU8::new(Verdict::Serve as u8),
            told: AtomicU64::new(0),
            http2: AtomicBool::new(false),
            served: AtomicBool::new(false),
            head: AtomicU64::new(0),
            quiet: AtomicU64::new(now),
            unread: AtomicBool::new(false),
            open: AtomicU32::new(0),
            exchanges: Mutex::default(),
        }
    }

    /// Bytes came where a head is expected, or the body of a request.
    pub(super) fn received(&self) {
        if self.head.load(Relaxed) == 0 && self.open.load(Relaxed) == 0 && !self.http2.load(Relaxed)
        {
            self.head.store(self.clock.now(), Relaxed);
        }
    }

    /// The client speaks HTTP/2: from now on bytes are frames, also where there is no request.
    pub(super) fn is_http2(&self) {
        self.http2.store(true, Relaxed);
        self.head.store(0, Relaxed);
        self.quiet.store(self.clock.now(), Relaxed);
    }

    /// A head is complete. Returns its request, and when the first byte came.
    pub(super) fn begin(&self) -> (Arc<Exchange>, Instant) {
        let exchange = Arc::new(Exchange::default());
        lock(&self.exchanges).push(Arc::clone(&exchange));
        self.open.fetch_add(1, Relaxed);
        self.served.store(true, Relaxed);
        let began = match self.head.swap(0, Relaxed) {
            0 => Instant::now(),
            head => self.clock.instant(head),
        };
        (exchange, began)
    }

    /// An answer was written to its end, or will not be.
    pub(super) fn end(&self, exchange: &Arc<Exchange>) {
        lock(&self.exchanges).retain(|other| !Arc::ptr_eq(other, exchange));
        self.quiet.store(self.clock.now(), Relaxed);
        self.open.fetch_sub(1, Relaxed);
    }

    /// The client read more of what waited for it. The rest of an answer is no longer part of a
    /// request.
    pub(super) fn read_more(&self, bytes: u64) {
        let earned = bytes / (ANSWER_BYTES_A_SECOND / 1_000);
        let quiet = self.quiet.load(Relaxed) + earned;
        self.quiet.store(quiet.min(self.clock.now()), Relaxed);
    }

    pub(super) fn leaves_unread(&self) {
        self.unread.store(true, Relaxed);
    }

    /// Whether the client may be in the middle of sending something.
    pub(super) fn may_be_sending(&self) -> bool {
        self.unread.load(Relaxed) || self.head.load(Relaxed) != 0
    }

    pub(super) fn verdict(&self) -> Verdict {
        match self.verdict.load(Relaxed) {
            0 => Verdict::Serve,
            2 if self.open.load(Relaxed) == 0 => Verdict::Late,
            // A late head may just have become complete.
            1 | 2 => Verdict::Finish,
            _ => Verdict::Cut,
        }
    }

    /// Has the connection's task look at the verdict whenever there is one.
    pub(super) fn wakes(&self, waker: &std::task::Waker) {
        self.waker.register(waker);
    }

    pub(super) fn tell(&self, verdict: Verdict) {
        if self.verdict.fetch_max(verdict as u8, Relaxed) < verdict as u8 {
            self.told.store(self.clock.now(), Relaxed);
            self.waker.wake();
        }
    }

    /// Ends what has passed a limit.
    pub(super) fn judge(&self, now: Millis, limits: &Limits) {
        let passed =
            |since: Millis, limit: Duration| now.saturating_sub(since) > limit.as_millis() as u64;
        let (told, head) = (self.told.load(Relaxed), self.head.load(Relaxed));
        if self.open.load(Relaxed) > 0 {
            return self.judge_exchanges(now);
        }
        let patience = if self.served.load(Relaxed) || self.http2.load(Relaxed) {
            limits.idle
        } else {
            limits.header
        };
        let quiet = self.quiet.load(Relaxed);
        if told != 0 && passed(told, limits.header) && passed(quiet, limits.header) {
            self.tell(Verdict::Cut);
        } else if head != 0 && passed(head, limits.header) {
            self.tell(Verdict::Late);
        } else if head == 0 && passed(quiet, patience) {
            self.tell(Verdict::Finish);
        }
    }

    fn judge_exchanges(&self, now: Millis) {
        for exchange in lock(&self.exchanges).iter() {
            if exchange.due().is_some_and(|due| now > due) {
                self.end_exchange(exchange);
            }
        }
    }

    fn end_exchange(&self, exchange: &Exchange) {
        exchange.unread.store(true, Relaxed);
        match exchange.task.get() {
            Some(stream) => stream.abort(),
            None => self.tell(Verdict::Cut),
        }
    }

    /// Returns the number of requests that are being answered.
    pub(super) fn requests(&self) -> usize {
        self.open.load(Relaxed) as usize
    }

    /// Since when the client lets the answer wait that it has let wait longest. What it read counts
    /// for it, as far as `limit`, which is the longest that it may wait.
    pub(super) fn unread_since(&self, limit: Duration) -> Option<Millis> {
        if self.verdict() == Verdict::Cut {
            return None;
        }
        let due = lock(&self.exchanges).iter().filter_map(|it| it.due()).min();
        due.map(|due| due.saturating_sub(limit.as_millis() as u64))
    }

    /// Ends the request whose answer waits longest for the client, if there is one.
    pub(super) fn end_unread(&self) -> bool {
        let exchanges = lock(&self.exchanges);
        let waiting = exchanges.iter().filter(|it| it.due().is_some());
        let longest = waiting.min_by_key(|it| it.due());
        longest
            .inspect(|exchange| {
                self.end_exchange(exchange);
                // It is on its way out, so that the next to make room is another one.
                exchange.due.store(0, Relaxed);
            })
            .is_some()
    }

    /// Returns how dispensable the connection is, and since when; `None` if it is answering
    /// something.
    pub(super) fn dispensable(&self, limit: Duration) -> Option<(Rank, Millis)> {
        if self.verdict() != Verdict::Serve {
            return None;
        }
        if self.open.load(Relaxed) == 0 {
            return Some(match self.head.load(Relaxed) {
                0 => (Rank::Idle, self.quiet.load(Relaxed)),
                head => (Rank::Head, head),
            });
        }
        let exchanges = lock(&self.exchanges);
        let are_unread = exchanges.iter().all(|it| it.due().is_some());
        let uploads = exchanges.iter().map(|it| it.uploads.load(Relaxed)).min();
        drop(exchanges);
        match self.unread_since(limit).filter(|_| are_unread) {
            Some(since) => Some((Rank::Unread, since)),
            None => uploads
                .filter(|since| *since != 0)
                .map(|since| (Rank::Upload, since)),
        }
    }

    /// Makes room for another connection.
    pub(super) fn evict(&self, rank: Rank) {
        self.tell(match rank {
            Rank::Idle => Verdict::Finish,
            Rank::Head => Verdict::Late,
            Rank::Unread | Rank::Upload => Verdict::Cut,
        });
    }
}

/// How long a client may still let an answer wait. Waiting uses it up, reading gives it back, as
/// far as the limit.
#[derive(Debug)]
pub(super) struct Patience {
    limit: Millis,
    left: Millis,
    asked: Millis,
    bytes: u64,
}

impl Patience {
    pub(super) fn new(limit: Duration) -> Self {
        let limit = limit.as_millis() as u64;
        Self {
            limit,
            left: limit,
            asked: 0,
            bytes: 0,
        }
    }

    /// The client has taken what was written before.
    pub(super) fn took(&mut self, clock: &Clock, exchange: &Exchange) {
        if self.asked != 0 {
            let waited = clock.ticked().saturating_sub(self.asked);
            let earned = self.bytes / (ANSWER_BYTES_A_SECOND / 1_000);
            self.left = self.limit.min(self.left.saturating_sub(waited) + earned);
            self.asked = 0;
            exchange.due.store(0, Relaxed);
        }
    }

    /// Something waits for it.
    pub(super) fn ask(&mut self, bytes: u64, clock: &Clock, exchange: &Exchange) {
        self.bytes = bytes;
        self.asked = clock.ticked();
        exchange.due.store(self.asked + self.left, Relaxed);
    }
}
