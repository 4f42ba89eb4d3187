//! State of a connection and of its requests, and the limits that they exceed.
//!
//! A connection is one task. The task, its socket and its requests note here what begins and what
//! ends; another task checks all connections a few times a second and ends those over a limit.
//! The library's own timer of heads cannot be used: it runs between requests too, and says nothing
//! to the client. So no connection has timers of its own, and a token resets none.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures_util::future::{AbortHandle, AbortRegistration};
use tokio::sync::Notify;

use super::limits::{ANSWER_BYTES_A_SECOND, Limits, time_earned};
use crate::owner::Peer;

/// Kinds of connections that may have to leave for another: a later one leaves sooner.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dispensable {
    Uploads,
    SendsHead,
    LeavesUnread,
    Idle,
}

/// A connection, as all that works for it sees it.
pub(super) struct Connection {
    pub(super) client: Peer,
    pub(super) limits: Limits,
    /// Wakes the task when it is to end.
    pub(super) told: Notify,
    task: AbortHandle,
    state: Mutex<State>,
}

struct State {
    /// When it was told to end as soon as its requests have.
    ending: Option<Instant>,
    /// Set when the head of its request does not come in time.
    is_late: bool,
    /// Longest time that it may be without a request.
    silence: Duration,
    /// When the first byte of a head came that is not complete.
    head: Option<Instant>,
    /// Since when there is no request.
    quiet: Instant,
    /// Set when the client may still send a body that will not be read.
    leaves_body: bool,
    /// Requests that are being answered.
    exchanges: Vec<Arc<Exchange>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn passed(since: Instant, limit: Duration) -> bool {
    since.elapsed() > limit
}

impl Connection {
    /// Returns a connection, and what ends the task that is to serve it.
    pub(super) fn new(client: Peer, limits: Limits) -> (Self, AbortRegistration) {
        let (task, ends) = AbortHandle::new_pair();
        let state = Mutex::new(State {
            ending: None,
            is_late: false,
            silence: limits.header,
            head: None,
            quiet: Instant::now(),
            leaves_body: false,
            exchanges: Vec::new(),
        });
        let told = Notify::new();
        let connection = Self {
            client,
            limits,
            told,
            task,
            state,
        };
        (connection, ends)
    }

    /// Notes that bytes came that are of a head where they are not of a body.
    pub(super) fn received(&self) {
        let mut state = lock(&self.state);
        if state.exchanges.is_empty() {
            state.head.get_or_insert_with(Instant::now);
        }
    }

    /// Notes that the bytes that came and will come are frames of HTTP/2.
    pub(super) fn has_frames(&self) {
        let mut state = lock(&self.state);
        (state.head, state.quiet) = (None, Instant::now());
        state.silence = self.limits.idle;
    }

    /// Begins the request whose head is complete.
    pub(super) fn begin(&self) -> Arc<Exchange> {
        let mut state = lock(&self.state);
        let arrived = state.head.take().unwrap_or_else(Instant::now);
        let exchange = Arc::new(Exchange {
            arrived,
            progress: Mutex::default(),
        });
        state.exchanges.push(Arc::clone(&exchange));
        state.silence = self.limits.idle;
        exchange
    }

    /// Notes that an answer was written to its end, or will not be.
    pub(super) fn end(&self, exchange: &Arc<Exchange>) {
        let mut state = lock(&self.state);
        state.exchanges.retain(|it| !Arc::ptr_eq(it, exchange));
        state.quiet = Instant::now();
    }

    /// Notes that the client read more of what waited for it: the rest of an answer may be left
    /// when its request has ended.
    pub(super) fn read_more(&self, bytes: u64) {
        let mut state = lock(&self.state);
        let earned = state.quiet + time_earned(bytes, ANSWER_BYTES_A_SECOND);
        state.quiet = earned.min(Instant::now());
    }

    pub(super) fn leaves_body(&self) {
        lock(&self.state).leaves_body = true;
    }

    /// Returns true if the client may be in the middle of sending something.
    pub(super) fn may_be_sending(&self) -> bool {
        let state = lock(&self.state);
        state.leaves_body || state.head.is_some()
    }

    /// Returns true if a head did not come in time, and has not become complete since.
    pub(super) fn is_late(&self) -> bool {
        let state = lock(&self.state);
        state.is_late && state.exchanges.is_empty()
    }

    fn tell(&self, state: &mut State, is_late: bool) {
        if state.ending.is_none() || is_late && !state.is_late {
            state.ending.get_or_insert_with(Instant::now);
            state.is_late |= is_late;
            self.told.notify_one();
        }
    }

    /// Has the connection end when its requests have.
    pub(super) fn finish(&self) {
        self.tell(&mut lock(&self.state), false);
    }

    /// Ends the connection now.
    pub(super) fn cut(&self) {
        self.task.abort();
    }

    /// Ends what has passed a limit.
    pub(super) fn check(&self) {
        let Limits { header, write, .. } = self.limits;
        let mut state = lock(&self.state);
        if !state.exchanges.is_empty() {
            let late = |it: &&Arc<Exchange>| it.lock().unread.is_some_and(|at| passed(at, write));
            state.exchanges.iter().filter(late).for_each(|it| it.end());
        } else if passed(state.quiet, header) && state.ending.is_some_and(|at| passed(at, header)) {
            self.cut();
        } else if let Some(head) = state.head {
            if passed(head, header) {
                self.tell(&mut state, true);
            }
        } else if passed(state.quiet, state.silence) {
            self.tell(&mut state, false);
        }
    }

    /// Returns the number of requests that are being answered.
    pub(super) fn requests(&self) -> usize {
        lock(&self.state).exchanges.len()
    }

    /// Returns the request whose answer waits longest for the client, and since when.
    pub(super) fn longest_unread(&self) -> Option<(Instant, Arc<Exchange>)> {
        let state = lock(&self.state);
        let unread = state.exchanges.iter();
        let unread = unread.filter_map(|it| Some((it.lock().unread?, Arc::clone(it))));
        let longest = unread.min_by_key(|(since, _)| *since);
        longest.filter(|_| !self.task.is_aborted())
    }

    /// Returns how dispensable the connection is, and since when; `None` if it is answering
    /// something, or ends.
    pub(super) fn dispensable(&self) -> Option<(Dispensable, Instant)> {
        let state = lock(&self.state);
        if state.ending.is_some() || self.task.is_aborted() {
            return None;
        }
        if state.exchanges.is_empty() {
            let head = state.head.map(|head| (Dispensable::SendsHead, head));
            return head.or(Some((Dispensable::Idle, state.quiet)));
        }
        // `None`, of a request that is being answered, is less than any time.
        let exchanges = || state.exchanges.iter().map(|it| it.lock());
        let unread = exchanges().map(|it| it.unread).min().flatten();
        let uploads = exchanges().map(|it| it.uploads).min().flatten();
        let unread = unread.map(|at| (Dispensable::LeavesUnread, at));
        unread.or(uploads.map(|at| (Dispensable::Uploads, at)))
    }

    /// Makes room for another connection.
    pub(super) fn evict(&self, why: Dispensable) {
        match why {
            Dispensable::Idle => self.finish(),
            Dispensable::SendsHead => self.tell(&mut lock(&self.state), true),
            Dispensable::LeavesUnread | Dispensable::Uploads => self.cut(),
        }
    }
}

/// A request and its answer.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// When the first byte of the head came.
    pub(crate) arrived: Instant,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Ends the task that answers: of a stream of HTTP/2, or of the connection.
    pub(super) task: Option<AbortHandle>,
    /// Since when the body is being waited for.
    pub(super) uploads: Option<Instant>,
    /// Since when the client lets the answer wait, had it never read before.
    unread: Option<Instant>,
    /// Bytes that wait.
    bytes: u64,
    /// Time for which the client let the answer wait, less what it earned by reading.
    spent: Duration,
    /// Set when the body did not come in time.
    pub(super) is_late: bool,
    /// Set when the client did not read the answer in time.
    is_unread: bool,
    /// Set when the body may take as long as it likes.
    pub(super) is_open_ended: bool,
}

impl Exchange {
    pub(super) fn lock(&self) -> MutexGuard<'_, Progress> {
        lock(&self.progress)
    }

    /// Returns true if the request's body did not come in time.
    pub(crate) fn body_was_late(&self) -> bool {
        self.lock().is_late
    }

    /// Returns true if the client did not read the answer in time.
    pub(crate) fn is_unread(&self) -> bool {
        self.lock().is_unread
    }

    /// Says that the body comes for as long as the client has something to say.
    pub(crate) fn is_open_ended(&self) {
        self.lock().is_open_ended = true;
    }

    /// Notes that so many bytes wait for the client.
    pub(super) fn waits(&self, bytes: u64, now: Instant) {
        let mut progress = self.lock();
        progress.bytes = bytes;
        progress.unread = now.checked_sub(progress.spent);
    }

    /// Notes that the client has taken what waited. Waiting uses up the limit, and reading gives it
    /// back.
    pub(super) fn is_read(&self, limit: Duration, now: Instant) {
        let mut progress = self.lock();
        if let Some(since) = progress.unread.take() {
            let earned = time_earned(progress.bytes, ANSWER_BYTES_A_SECOND);
            progress.spent = (now - since).min(limit).saturating_sub(earned);
        }
    }

    /// Ends the request, whose answer the client does not read.
    pub(super) fn end(&self) {
        let mut progress = self.lock();
        progress.is_unread = true;
        // It is on its way out, so that the next to make room is another one.
        progress.unread = None;
        if let Some(task) = &progress.task {
            task.abort();
        }
    }
}
