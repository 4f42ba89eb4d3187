//! The connections of a listener: which are accepted, which are closed, and whether any are left.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

use super::{
    limits::Limits,
    refusal::Refusals,
    watch::{Clock, Connection, Verdict},
};
use crate::owner::{PLACES_OF_A_CLIENT, Peer};

/// Connections over the limit while those that they replace are still closing.
const CLOSING: usize = 32;

/// How long an answer that was handed over may take to leave, when everything else has ended.
const FLUSH: Duration = Duration::from_millis(250);

/// All connections of the listeners that share a limit.
pub(crate) struct Connections {
    pub(super) limits: Limits,
    pub(super) refusals: Arc<Refusals>,
    clock: Arc<Clock>,
    /// By number. At most [`Limits::connections`] and [`CLOSING`].
    open: Mutex<Open>,
    next: AtomicU64,
    requests: AtomicUsize,
    refused: AtomicU64,
    came: Notify,
    left: Notify,
}

/// A connection's place, until it is dropped.
pub(super) struct Place {
    pub(super) connections: Arc<Connections>,
    pub(super) connection: Arc<Connection>,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.lock().remove(&self.number);
        self.connections.left.notify_waiters();
    }
}

/// A request's place, until it is dropped.
pub(super) struct RequestPlace(Arc<Connections>);

impl Drop for RequestPlace {
    fn drop(&mut self) {
        if self.0.requests.fetch_sub(1, Relaxed) == 1 {
            self.0.left.notify_waiters();
        }
    }
}

/// Returns true if a client that has so many places needs one that is taken, because too few are
/// free.
fn is_crowded(own: usize, free: usize) -> bool {
    own >= PLACES_OF_A_CLIENT as usize * free
}

type Open = HashMap<u64, Arc<Connection>>;

fn of_client(open: &Open, client: Peer) -> impl Iterator<Item = &Arc<Connection>> {
    open.values().filter(move |it| it.client == client)
}

fn of_all_or(open: &Open, client: Option<Peer>) -> impl Iterator<Item = &Arc<Connection>> {
    let is_meant = move |it: &&Arc<Connection>| client.is_none_or(|client| it.client == client);
    open.values().filter(is_meant)
}

impl Connections {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            refusals: Arc::new(Refusals::new()),
            clock: Arc::new(Clock::new()),
            open: Mutex::default(),
            next: AtomicU64::new(0),
            requests: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            came: Notify::new(),
            left: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more connection. Where all are taken, the one that does the least has to
    /// leave, unless all do something; of a client that has its share, one of its own.
    pub(super) fn admit(self: &Arc<Self>, client: Peer) -> Option<Place> {
        self.clock.tick();
        let mut open = self.lock();
        let (most, all) = (self.limits.connections, open.len());
        let own = of_client(&open, client).count();
        if is_crowded(own, most.saturating_sub(all)) {
            let of = (all < most).then_some(client);
            if all >= most + CLOSING || !self.make_room(&open, of) {
                self.refused.fetch_add(1, Relaxed);
                return None;
            }
        }
        let connection = Arc::new(Connection::new(client, Arc::clone(&self.clock)));
        let number = self.next.fetch_add(1, Relaxed);
        open.insert(number, Arc::clone(&connection));
        drop(open);
        self.came.notify_one();
        Some(Place {
            connections: Arc::clone(self),
            connection,
            number,
        })
    }

    /// Has the most dispensable connection leave, of all or of a client. One that has just come is
    /// not: its request may be on the way.
    fn make_room(&self, open: &Open, of: Option<Peer>) -> bool {
        let before = self.clock.now().saturating_sub(self.limits.young());
        let candidates = of_all_or(open, of).filter_map(|connection| {
            let (rank, since) = connection.dispensable(self.limits.write)?;
            (since < before).then_some((rank, std::cmp::Reverse(since), connection))
        });
        let chosen = candidates.max_by_key(|(rank, since, _)| (*rank, *since));
        chosen
            .inspect(|(rank, _, connection)| connection.evict(*rank))
            .is_some()
    }

    /// Has a connection that does nothing give its descriptor back.
    pub(super) fn free_descriptor(&self) {
        self.make_room(&self.lock(), None);
    }

    /// A place for a request: streams of HTTP/2 are many to a connection. Where all are taken, one
    /// whose answer nobody reads has to end, as for a connection.
    pub(super) fn request_begins(self: &Arc<Self>, client: Peer) -> Option<RequestPlace> {
        let place = RequestPlace(Arc::clone(self));
        let all = self.requests.fetch_add(1, Relaxed);
        let most = self.limits.connections + CLOSING;
        let free = most.saturating_sub(all);
        // Nobody has more than all have.
        if is_crowded(all, free) {
            let open = self.lock();
            let own = of_client(&open, client).map(|it| it.requests()).sum();
            let of = (free > 0).then_some(client);
            if is_crowded(own, free) && (all >= most + CLOSING || !self.end_unread(&open, of)) {
                return None;
            }
        }
        Some(place)
    }

    /// Ends the request whose answer has waited longest for its client, of all or of a client.
    fn end_unread(&self, open: &Open, of: Option<Peer>) -> bool {
        let before = self.clock.now().saturating_sub(self.limits.young());
        let unread = of_all_or(open, of)
            .filter_map(|connection| {
                Some((connection.unread_since(self.limits.write)?, connection))
            })
            .filter(|(since, _)| *since < before);
        let longest = unread.min_by_key(|(since, _)| *since);
        longest.is_some_and(|(_, connection)| connection.end_unread())
    }

    /// How many connections are open, and how many were refused.
    pub(crate) fn counts(&self) -> (usize, u64) {
        (self.lock().len(), self.refused.load(Relaxed))
    }

    fn tell(&self, verdict: Verdict) {
        for connection in self.lock().values() {
            connection.tell(verdict);
        }
    }

    /// Has each connection end when its requests have.
    pub(crate) fn finish(&self) {
        self.tell(Verdict::Finish);
    }

    /// Ends all connections now.
    pub(crate) fn cut(&self) {
        self.tell(Verdict::Cut);
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
        let Limits {
            header,
            idle,
            body: _,
            write,
            connections: _,
        } = self.limits;
        let shortest = header.min(idle).min(write);
        let pause = (shortest / 20).clamp(Duration::from_millis(10), Duration::from_millis(500));
        loop {
            let none = self.lock().is_empty();
            if none {
                self.came.notified().await;
            }
            let now = self.clock.tick();
            for connection in self.lock().values() {
                connection.judge(now, &self.limits);
            }
            sleep(pause).await;
        }
    }
}
