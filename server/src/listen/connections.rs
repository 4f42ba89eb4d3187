//! The connections of listeners: limits, eviction and shutdown.

use std::{cmp::Reverse, sync::Arc, time::Duration};

use futures_util::future::AbortRegistration;
use tokio::{
    sync::{Semaphore, watch},
    time::{sleep, timeout},
};

use super::{
    accept::REFUSED_AT_ONCE,
    connection::{Connection, Exchange},
    limits::Limits,
};
use crate::owner::{PLACES_OF_A_CLIENT, Peer};

/// Connections allowed above the limit while the ones that they replace are closing.
const CLOSING: usize = 32;

/// Maximum time for finished answers to be sent when everything else has ended.
const FLUSH: Duration = Duration::from_millis(250);

/// All connections of the listeners that share a limit.
pub(crate) struct Connections {
    limits: Limits,
    /// Permits for connections that are being refused.
    pub(super) refusing: Arc<Semaphore>,
    open: watch::Sender<OpenConnections>,
}

#[derive(Default)]
struct OpenConnections {
    /// Open connections, at most [`Limits::connections`] and [`CLOSING`].
    connections: Vec<Arc<Connection>>,
    /// Number of requests being answered.
    requests: usize,
    /// Number of connections refused so far.
    refused: u64,
}

/// The place of a connection among all, released on drop.
pub(super) struct Place {
    connections: Arc<Connections>,
    pub(super) connection: Arc<Connection>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let is_other = |it: &Arc<Connection>| !Arc::ptr_eq(it, &self.connection);
        let open = &self.connections.open;
        open.send_modify(|open| open.connections.retain(is_other));
    }
}

/// A request being answered, until this is dropped.
pub(super) struct Answering {
    /// `None` if there is no place, so the request is refused.
    pub(super) place: Option<Arc<Connections>>,
    pub(super) connection: Arc<Connection>,
    pub(super) exchange: Arc<Exchange>,
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.connection.end(&self.exchange);
        if let Some(connections) = &self.place {
            connections.open.send_modify(|open| open.requests -= 1);
        }
    }
}

/// Returns true if a client may take another place. If the client has used its share, one of its
/// own must end; if all places are taken, any one. `make_room` ends it.
fn has_place(
    client: Peer,
    (taken, most): (usize, usize),
    own: impl FnOnce() -> usize,
    make_room: impl FnOnce(Option<Peer>) -> bool,
) -> bool {
    let share = PLACES_OF_A_CLIENT as usize * most.saturating_sub(taken);
    // A client cannot have more than all clients together.
    taken < share
        || own() < share
        || taken < most + CLOSING && make_room((taken < most).then_some(client))
}

impl OpenConnections {
    /// Returns the connections of a client, or of all clients.
    fn connections(&self, client: Option<Peer>) -> impl Iterator<Item = &Arc<Connection>> {
        let is_meant = move |it: &&Arc<Connection>| client.is_none_or(|client| it.client == client);
        self.connections.iter().filter(is_meant)
    }

    /// Ends the most dispensable connection of a client, or of all. A connection that has just been
    /// accepted stays, because its request may be on the way.
    fn evict(&self, limits: &Limits, whose: Option<Peer>) -> bool {
        let candidates = self
            .connections(whose)
            .filter_map(|it| Some((it.dispensable()?, it)))
            .filter(|((_, since), _)| limits.may_end(*since));
        let chosen = candidates.max_by_key(|((why, since), _)| (*why, Reverse(*since)));
        chosen.inspect(|((why, _), it)| it.evict(*why)).is_some()
    }

    /// Ends the request whose answer has waited longest for its client, of a client or of all.
    fn end_unread(&self, limits: &Limits, whose: Option<Peer>) -> bool {
        let unread = self.connections(whose).filter_map(|it| it.longest_unread());
        let longest = unread.min_by_key(|(since, _)| *since);
        let longest = longest.filter(|(since, _)| limits.may_end(*since));
        longest.inspect(|(_, exchange)| exchange.end()).is_some()
    }
}

impl Connections {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            refusing: Arc::new(Semaphore::new(REFUSED_AT_ONCE)),
            open: watch::Sender::default(),
        }
    }

    /// Returns a place for another connection, and the registration for aborting its task. If all
    /// places are taken, the most dispensable connection ends; if there is none, returns `None`.
    pub(super) fn admit(self: &Arc<Self>, client: Peer) -> Option<(Place, AbortRegistration)> {
        let (connection, ends) = Connection::new(client, self.limits.clone());
        let place = Place {
            connections: Arc::clone(self),
            connection: Arc::new(connection),
        };
        let is_admitted = self.open.send_if_modified(|open| {
            let places = (open.connections.len(), self.limits.connections);
            let own = || open.connections(Some(client)).count();
            let has_place = has_place(client, places, own, |of| open.evict(&self.limits, of));
            if has_place {
                open.connections.push(Arc::clone(&place.connection));
            } else {
                open.refused += 1;
            }
            has_place
        });
        is_admitted.then_some((place, ends))
    }

    /// Ends a dispensable connection to get its descriptor.
    pub(super) fn free_descriptor(&self) {
        self.open.borrow().evict(&self.limits, None);
    }

    /// Returns the number of open connections, and of refused ones.
    pub(crate) fn counts(&self) -> (usize, u64) {
        let open = self.open.borrow();
        (open.connections.len(), open.refused)
    }

    fn for_each(&self, act: fn(&Connection)) {
        let open = self.open.borrow();
        open.connections(None).for_each(|it| act(it));
    }

    /// Ends each connection after its requests.
    pub(crate) fn finish(&self) {
        self.for_each(Connection::finish);
    }

    /// Ends all connections now, with their requests.
    pub(crate) fn cut(&self) {
        self.for_each(Connection::cut);
    }

    /// Waits until there are no requests and no connections, except those whose heads never arrive.
    pub(crate) async fn empty(&self) {
        let mut open = self.open.subscribe();
        loop {
            // Fails only if the sender is dropped, which this value owns.
            let _ = open.wait_for(|open| open.requests == 0).await;
            let all = open.wait_for(|open| open.connections.is_empty());
            // A head that was on its way may become a request in this time.
            if timeout(FLUSH, all).await.is_ok() || self.open.borrow().requests == 0 {
                return;
            }
        }
    }

    /// Checks all connections regularly, as long as the server runs.
    pub(crate) async fn watch(self: Arc<Self>) {
        let limits = &self.limits;
        let shortest = limits.header.min(limits.idle).min(limits.write);
        let pause = (shortest / 20).clamp(Duration::from_millis(10), Duration::from_millis(500));
        let mut open = self.open.subscribe();
        let is_any = |open: &OpenConnections| !open.connections.is_empty();
        while open.wait_for(is_any).await.is_ok() {
            self.for_each(Connection::check);
            sleep(pause).await;
        }
    }
}

impl Place {
    /// Starts a request, if there is a place; an HTTP/2 connection can have many requests. If all
    /// places are taken, a request whose answer is not read must end.
    pub(super) fn begin(&self) -> Answering {
        let (connections, connection) = (&self.connections, &self.connection);
        let exchange = connection.begin();
        let (limits, client) = (&connections.limits, connection.client);
        let has_place = connections.open.send_if_modified(|open| {
            let places = (open.requests, limits.connections + CLOSING);
            let own = || open.connections(Some(client)).map(|it| it.requests()).sum();
            let has_place = has_place(client, places, own, |of| open.end_unread(limits, of));
            open.requests += usize::from(has_place);
            has_place
        });
        Answering {
            place: has_place.then(|| Arc::clone(connections)),
            connection: Arc::clone(connection),
            exchange,
        }
    }
}
