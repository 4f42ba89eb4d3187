//! The connections of a listener: which are accepted, which are closed, and whether any are left.

use std::{
    cmp::Reverse,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use futures_util::future::AbortRegistration;
use tokio::{
    sync::{Notify, Semaphore},
    time::{sleep, timeout},
};

use super::{
    connection::{Connection, Exchange},
    limits::Limits,
    refusal::AT_ONCE,
};
use crate::owner::{PLACES_OF_A_CLIENT, Peer};

/// Connections over the limit while those that they replace are still closing.
const CLOSING: usize = 32;

/// How long an answer that was handed over may take to leave, when everything else has ended.
const FLUSH: Duration = Duration::from_millis(250);

/// All connections of the listeners that share a limit.
pub(crate) struct Connections {
    limits: Limits,
    /// Places of connections that are being refused.
    pub(super) refusing: Arc<Semaphore>,
    /// At most [`Limits::connections`] and [`CLOSING`].
    open: Mutex<Vec<Arc<Connection>>>,
    requests: AtomicUsize,
    refused: AtomicU64,
    came: Notify,
    left: Notify,
}

/// A connection's place, until it is dropped.
pub(super) struct Place {
    connections: Arc<Connections>,
    pub(super) connection: Arc<Connection>,
}

impl Place {
    /// Begins a request. Returns when the first byte of its head came, too.
    pub(super) fn begin(&self) -> (Answering, Instant) {
        let (exchange, arrived) = self.connection.begin();
        let has_place = self.connections.request_begins(self.connection.client);
        let answering = Answering {
            connections: has_place.then(|| Arc::clone(&self.connections)),
            connection: Arc::clone(&self.connection),
            exchange,
        };
        (answering, arrived)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        open.retain(|it| !Arc::ptr_eq(it, &self.connection));
        drop(open);
        self.connections.left.notify_waiters();
    }
}

/// A request that is being answered, until this is dropped.
pub(super) struct Answering {
    /// `None` where no place is left: it is refused.
    connections: Option<Arc<Connections>>,
    pub(super) connection: Arc<Connection>,
    pub(super) exchange: Arc<Exchange>,
}

impl Answering {
    pub(super) fn has_place(&self) -> bool {
        self.connections.is_some()
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.connection.end(&self.exchange);
        if let Some(connections) = &self.connections {
            connections.request_ends();
        }
    }
}

/// Returns true if a client that has so many places needs one that is taken, because too few are
/// free.
fn is_crowded(own: usize, free: usize) -> bool {
    own >= PLACES_OF_A_CLIENT as usize * free
}

/// Returns the connections of a client, or all.
fn of(open: &[Arc<Connection>], client: Option<Peer>) -> impl Iterator<Item = &Arc<Connection>> {
    let is_meant = move |it: &&Arc<Connection>| client.is_none_or(|client| it.client == client);
    open.iter().filter(is_meant)
}

impl Connections {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            refusing: Arc::new(Semaphore::new(AT_ONCE)),
            open: Mutex::default(),
            requests: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            came: Notify::new(),
            left: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a place for one more connection, and what ends the task that is to serve it. Where
    /// all are taken, the one that does the least has to leave, unless all do something; of a client
    /// that has its share, one of its own.
    pub(super) fn admit(self: &Arc<Self>, client: Peer) -> Option<(Place, AbortRegistration)> {
        let mut open = self.lock();
        let (most, all) = (self.limits.connections, open.len());
        let own = of(&open, Some(client)).count();
        if is_crowded(own, most.saturating_sub(all)) {
            let whose = (all < most).then_some(client);
            if all >= most + CLOSING || !self.make_room(&open, whose) {
                self.refused.fetch_add(1, Relaxed);
                return None;
            }
        }
        let (connection, ends) = Connection::new(client, self.limits.clone());
        let connection = Arc::new(connection);
        open.push(Arc::clone(&connection));
        drop(open);
        self.came.notify_one();
        let connections = Arc::clone(self);
        let place = Place {
            connections,
            connection,
        };
        Some((place, ends))
    }

    /// Has the most dispensable connection leave, of all or of a client. One that has just come is
    /// not: its request may be on the way.
    fn make_room(&self, open: &[Arc<Connection>], whose: Option<Peer>) -> bool {
        let candidates = of(open, whose).filter_map(|it| Some((it.dispensable()?, it)));
        let chosen = candidates
            .filter(|((_, since), _)| self.limits.may_end(*since))
            .max_by_key(|((why, since), _)| (*why, Reverse(*since)));
        chosen
            .inspect(|((why, _), connection)| connection.evict(*why))
            .is_some()
    }

    /// Has a connection that does nothing give its descriptor back.
    pub(super) fn free_descriptor(&self) {
        self.make_room(&self.lock(), None);
    }

    /// Returns true if there is a place for one more request: streams of HTTP/2 are many to a
    /// connection. Where all are taken, one whose answer nobody reads has to end, as for a
    /// connection.
    fn request_begins(&self, client: Peer) -> bool {
        let all = self.requests.fetch_add(1, Relaxed);
        let most = self.limits.connections + CLOSING;
        let free = most.saturating_sub(all);
        // Nobody has more than all have.
        if is_crowded(all, free) {
            let open = self.lock();
            let own = of(&open, Some(client)).map(|it| it.requests()).sum();
            let whose = (free > 0).then_some(client);
            if is_crowded(own, free) && (all >= most + CLOSING || !self.end_unread(&open, whose)) {
                self.request_ends();
                return false;
            }
        }
        true
    }

    fn request_ends(&self) {
        if self.requests.fetch_sub(1, Relaxed) == 1 {
            self.left.notify_waiters();
        }
    }

    /// Ends the request whose answer has waited longest for its client, of all or of a client.
    fn end_unread(&self, open: &[Arc<Connection>], whose: Option<Peer>) -> bool {
        let unread = of(open, whose).filter_map(|it| it.longest_unread());
        let longest = unread.min_by_key(|(since, _)| *since);
        longest
            .filter(|(since, _)| self.limits.may_end(*since))
            .inspect(|(_, exchange)| exchange.end())
            .is_some()
    }

    /// How many connections are open, and how many were refused.
    pub(crate) fn counts(&self) -> (usize, u64) {
        (self.lock().len(), self.refused.load(Relaxed))
    }

    /// Has each connection end when its requests have.
    pub(crate) fn finish(&self) {
        self.lock().iter().for_each(|it| it.finish());
    }

    /// Ends all connections now.
    pub(crate) fn cut(&self) {
        self.lock().iter().for_each(|it| it.cut());
    }

    /// Waits until there is neither a request nor, but for heads that never come, a connection.
    pub(crate) async fn empty(&self) {
        loop {
            self.until(|| self.requests.load(Relaxed) == 0).await;
            let all = self.until(|| self.lock().is_empty());
            // In this time a head that was on its way may have become a request.
            if timeout(FLUSH, all).await.is_ok() || self.requests.load(Relaxed) == 0 {
                return;
            }
        }
    }

    async fn until(&self, is: impl Fn() -> bool) {
        loop {
            let left = self.left.notified();
            if is() {
                return;
            }
            left.await;
        }
    }

    /// Looks at all connections again and again, for as long as the server runs.
    pub(crate) async fn watch(self: Arc<Self>) {
        let limits = &self.limits;
        let shortest = limits.header.min(limits.idle).min(limits.write);
        let pause = (shortest / 20).clamp(Duration::from_millis(10), Duration::from_millis(500));
        loop {
            let none = self.lock().is_empty();
            if none {
                self.came.notified().await;
            }
            self.lock().iter().for_each(|it| it.check());
            sleep(pause).await;
        }
    }
}
