//! State of a connection and of its requests, and the limits that they exceed.
//!
//! A connection is one task. The task, its socket and its requests record here what starts and
//! ends. Another task checks all connections a few times per second, and ends those over a limit.
//! The library's own timer for heads cannot be used: it also runs between requests, and sends no
//! explanation to the client. So a connection has no timers, and sending a token resets none.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::{AbortHandle, AbortRegistration};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::limits::{ANSWER_BYTES_A_SECOND, Limits, time_earned};
use crate::owner::Peer;

/// The states of connections that can be ended for another one. Later ones are ended first.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dispensable {
    Uploads,
    SendsHead,
    LeavesUnread,
    Idle,
}

/// A connection, shared by all tasks that work for it.
pub(super) struct Connection {
    pub(super) client: Peer,
    pub(super) limits: Limits,
    /// Wakes the task when the connection should end.
    pub(super) told: Notify,
    task: AbortHandle,
    state: Mutex<ConnectionState>,
}

struct ConnectionState {
    /// Time when its shutdown began. Its running requests may finish.
    ending: Option<Instant>,
    /// True if the head of a request did not arrive in time.
    is_late: bool,
    /// Maximum time without a request.
    silence: Duration,
    /// Arrival of the first byte of an incomplete head.
    head: Option<Instant>,
    /// Time since which there is no request.
    quiet: Instant,
    /// True if the client may still send a body that will not be read.
    leaves_body: bool,
    exchanges: Vec<Arc<Exchange>>,
}

fn passed(since: Instant, limit: Duration) -> bool {
    since.elapsed() > limit
}

impl Connection {
    /// Creates a connection, and the registration for aborting the task that serves it.
    pub(super) fn new(client: Peer, limits: Limits) -> (Self, AbortRegistration) {
        let (task, ends) = AbortHandle::new_pair();
        let state = Mutex::new(ConnectionState {
            ending: None,
            is_late: false,
            silence: limits.header,
            head: None,
            quiet: Instant::now(),
            leaves_body: false,
            exchanges: Vec::new(),
        });
        let connection = Self {
            client,
            limits,
            told: Notify::new(),
            task,
            state,
        };
        (connection, ends)
    }

    /// Records received bytes. If no request is running, they belong to a head.
    pub(super) fn received(&self) {
        let mut state = self.state.lock();
        if state.exchanges.is_empty() {
            state.head.get_or_insert_with(Instant::now);
        }
    }

    /// Records that all bytes are HTTP/2 frames from now on.
    pub(super) fn has_frames(&self) {
        let mut state = self.state.lock();
        (state.head, state.quiet) = (None, Instant::now());
        state.silence = self.limits.idle;
    }

    /// Starts a request whose head is complete.
    pub(super) fn begin(&self) -> Arc<Exchange> {
        let mut state = self.state.lock();
        let arrived = state.head.take().unwrap_or_else(Instant::now);
        let exchange = Arc::new(Exchange {
            arrived,
            progress: Mutex::default(),
        });
        state.exchanges.push(Arc::clone(&exchange));
        state.silence = self.limits.idle;
        exchange
    }

    /// Records that an answer was written to its end, or was abandoned.
    pub(super) fn end(&self, exchange: &Arc<Exchange>) {
        let mut state = self.state.lock();
        state.exchanges.retain(|it| !Arc::ptr_eq(it, exchange));
        state.quiet = Instant::now();
    }

    /// Records that the client read more bytes, also those that remain after its request has ended.
    pub(super) fn read_more(&self, bytes: u64) {
        let mut state = self.state.lock();
        let earned = state.quiet + time_earned(bytes, ANSWER_BYTES_A_SECOND);
        state.quiet = earned.min(Instant::now());
    }

    pub(super) fn leaves_body(&self) {
        self.state.lock().leaves_body = true;
    }

    /// Returns true if the client may be sending something.
    pub(super) fn may_be_sending(&self) -> bool {
        let state = self.state.lock();
        state.leaves_body || state.head.is_some()
    }

    /// Returns true if a head did not arrive in time and is still incomplete.
    pub(super) fn is_late(&self) -> bool {
        let state = self.state.lock();
        state.is_late && state.exchanges.is_empty()
    }

    fn request_end(&self, state: &mut ConnectionState, is_late: bool) {
        if state.ending.is_none() || is_late && !state.is_late {
            state.ending.get_or_insert_with(Instant::now);
            state.is_late |= is_late;
            self.told.notify_one();
        }
    }

    /// Ends the connection after its requests.
    pub(super) fn finish(&self) {
        self.request_end(&mut self.state.lock(), false);
    }

    /// Ends the connection now, with its requests.
    pub(super) fn cut(&self) {
        self.task.abort();
    }

    /// Ends requests, or the connection, if a limit is exceeded.
    pub(super) fn check(&self) {
        let Limits { header, write, .. } = self.limits;
        let mut state = self.state.lock();
        if !state.exchanges.is_empty() {
            let late = |it: &&Arc<Exchange>| it.lock().unread.is_some_and(|at| passed(at, write));
            state.exchanges.iter().filter(late).for_each(|it| it.end());
        } else if passed(state.quiet, header) && state.ending.is_some_and(|at| passed(at, header)) {
            self.cut();
        } else if let Some(head) = state.head {
            if passed(head, header) {
                self.request_end(&mut state, true);
            }
        } else if passed(state.quiet, state.silence) {
            self.request_end(&mut state, false);
        }
    }

    /// Returns the number of requests being answered.
    pub(super) fn requests(&self) -> usize {
        self.state.lock().exchanges.len()
    }

    /// Returns the request whose answer has waited longest for the client, and the time since when.
    pub(super) fn longest_unread(&self) -> Option<(Instant, Arc<Exchange>)> {
        let state = self.state.lock();
        let unread = state.exchanges.iter();
        let unread = unread.filter_map(|it| Some((it.lock().unread?, Arc::clone(it))));
        let longest = unread.min_by_key(|(since, _)| *since);
        longest.filter(|_| !self.task.is_aborted())
    }

    /// Returns how dispensable the connection is, and the time since when. `None` if it is
    /// computing an answer, or ends.
    pub(super) fn dispensable(&self) -> Option<(Dispensable, Instant)> {
        let state = self.state.lock();
        if state.ending.is_some() || self.task.is_aborted() {
            return None;
        }
        if state.exchanges.is_empty() {
            let head = state.head.map(|head| (Dispensable::SendsHead, head));
            return head.or(Some((Dispensable::Idle, state.quiet)));
        }
        // `None`, for a request being computed, is less than any time.
        let exchanges = || state.exchanges.iter().map(|it| it.lock());
        let unread = exchanges().map(|it| it.unread).min().flatten();
        let uploads = exchanges().map(|it| it.uploads).min().flatten();
        let unread = unread.map(|at| (Dispensable::LeavesUnread, at));
        unread.or(uploads.map(|at| (Dispensable::Uploads, at)))
    }

    /// Ends the connection to make room for another one.
    pub(super) fn evict(&self, why: Dispensable) {
        match why {
            Dispensable::Idle => self.finish(),
            Dispensable::SendsHead => self.request_end(&mut self.state.lock(), true),
            Dispensable::LeavesUnread | Dispensable::Uploads => self.cut(),
        }
    }
}

/// A request with its answer.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// Arrival of the first byte of the head.
    pub(crate) arrived: Instant,
    progress: Mutex<ExchangeProgress>,
}

#[derive(Debug, Default)]
pub(super) struct ExchangeProgress {
    /// Aborts the answering task: of an HTTP/2 stream, or of the connection.
    pub(super) task: Option<AbortHandle>,
    /// Time since which the body is awaited.
    pub(super) uploads: Option<Instant>,
    /// Time since which the client leaves the answer unread, as if it had never read before.
    unread: Option<Instant>,
    bytes: u64,
    /// Time for which the client left the answer unread, minus the time that it earned by reading.
    spent: Duration,
    /// True if the body did not arrive in time.
    pub(super) is_late: bool,
    /// True if the client did not read the answer in time.
    is_unread: bool,
    /// True if the body has no time limit.
    pub(super) is_open_ended: bool,
}

impl Exchange {
    pub(super) fn lock(&self) -> MutexGuard<'_, ExchangeProgress> {
        self.progress.lock()
    }

    /// Returns true if the request's body did not arrive in time.
    pub(crate) fn body_was_late(&self) -> bool {
        self.lock().is_late
    }

    /// Returns true if the client did not read the answer in time.
    pub(crate) fn is_unread(&self) -> bool {
        self.lock().is_unread
    }

    /// Removes the time limit of the body, for a stream that lasts as long as the client wants.
    pub(crate) fn remove_body_limit(&self) {
        self.lock().is_open_ended = true;
    }

    /// Records that bytes wait for the client.
    pub(super) fn record_wait(&self, bytes: u64, now: Instant) {
        let mut progress = self.lock();
        progress.bytes = bytes;
        progress.unread = now.checked_sub(progress.spent);
    }

    /// Records that the client took the waiting bytes. Waiting uses up the limit, and reading
    /// restores it.
    pub(super) fn record_read(&self, limit: Duration, now: Instant) {
        let mut progress = self.lock();
        if let Some(since) = progress.unread.take() {
            let earned = time_earned(progress.bytes, ANSWER_BYTES_A_SECOND);
            progress.spent = (now - since).min(limit).saturating_sub(earned);
        }
    }

    /// Ends the request, because the client does not read its answer.
    pub(super) fn end(&self) {
        let mut progress = self.lock();
        progress.is_unread = true;
        // It is ending, so the next eviction must choose another one.
        progress.unread = None;
        if let Some(task) = &progress.task {
            task.abort();
        }
    }
}
