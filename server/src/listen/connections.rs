//! The connections of a listener: which are accepted, which are closed, and whether any are left.

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

/// Connections over the limit while those that they replace are still closing.
const CLOSING: usize = 32;

/// Longest time that an answer that was handed over may take to leave, when everything else has ended.
const FLUSH: Duration = Duration::from_millis(250);

/// All connections of the listeners that share a limit.
pub(crate) struct Connections {
    limits: Limits,
    /// Places of connections that are being refused.
    pub(super) refusing: Arc<Semaphore>,
    open: watch::Sender<Open>,
}

#[derive(Default)]
struct Open {
    /// At most [`Limits::connections`] and [`CLOSING`].
    connections: Vec<Arc<Connection>>,
    /// Requests that are being answered.
    requests: usize,
    /// Connections that were refused.
    refused: u64,
}

/// A connection's place, until it is dropped.
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

/// A request that is being answered, until this is dropped.
pub(super) struct Answering {
    /// `None` where no place is left: it is refused.
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

/// Returns true if a client may take one more of the places, of which so many are taken. Where it
/// has its share of them, or all are taken, another has to end, of the client or of all.
fn has_place(
    client: Peer,
    (taken, most): (usize, usize),
    own: impl FnOnce() -> usize,
    make_room: impl FnOnce(Option<Peer>) -> bool,
) -> bool {
    let share = PLACES_OF_A_CLIENT as usize * most.saturating_sub(taken);
    // Nobody has more than all have.
    taken < share
        || own() < share
        || taken < most + CLOSING && make_room((taken < most).then_some(client))
}

impl Open {
    /// Returns the connections of a client, or all.
    fn of(&self, client: Option<Peer>) -> impl Iterator<Item = &Arc<Connection>> {
        let is_meant = move |it: &&Arc<Connection>| client.is_none_or(|client| it.client == client);
        self.connections.iter().filter(is_meant)
    }

    /// Has the most dispensable connection leave, of all or of a client. One that has just come is
    /// not: its request may be on the way.
    fn evict(&self, limits: &Limits, whose: Option<Peer>) -> bool {
        let candidates = self
            .of(whose)
            .filter_map(|it| Some((it.dispensable()?, it)))
            .filter(|((_, since), _)| limits.may_end(*since));
        let chosen = candidates.max_by_key(|((why, since), _)| (*why, Reverse(*since)));
        chosen.inspect(|((why, _), it)| it.evict(*why)).is_some()
    }

    /// Ends the request whose answer has waited longest for its client, of all or of a client.
    fn end_unread(&self, limits: &Limits, whose: Option<Peer>) -> bool {
        let unread = self.of(whose).filter_map(|it| it.longest_unread());
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

    /// Returns a place for one more connection, and what ends the task that is to serve it. Where
    /// all are taken, the one that does the least has to leave, unless all do something.
    pub(super) fn admit(self: &Arc<Self>, client: Peer) -> Option<(Place, AbortRegistration)> {
        let (connection, ends) = Connection::new(client, self.limits.clone());
        let place = Place {
            connections: Arc::clone(self),
            connection: Arc::new(connection),
        };
        let is_admitted = self.open.send_if_modified(|open| {
            let places = (open.connections.len(), self.limits.connections);
            let own = || open.of(Some(client)).count();
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

    /// Has a connection that does nothing give its descriptor back.
    pub(super) fn free_descriptor(&self) {
        self.open.borrow().evict(&self.limits, None);
    }

    /// Returns the number of open connections, and of those that were refused.
    pub(crate) fn counts(&self) -> (usize, u64) {
        let open = self.open.borrow();
        (open.connections.len(), open.refused)
    }

    /// Has each connection end when its requests have.
    pub(crate) fn finish(&self) {
        self.open.borrow().of(None).for_each(|it| it.finish());
    }

    /// Ends all connections now.
    pub(crate) fn cut(&self) {
        self.open.borrow().of(None).for_each(|it| it.cut());
    }

    /// Waits until there is neither a request nor, but for heads that never come, a connection.
    pub(crate) async fn empty(&self) {
        let mut open = self.open.subscribe();
        loop {
            // It ends with the sender, which is here.
            let _ = open.wait_for(|open| open.requests == 0).await;
            let all = open.wait_for(|open| open.connections.is_empty());
            // In this time a head that was on its way may have become a request.
            if timeout(FLUSH, all).await.is_ok() || self.open.borrow().requests == 0 {
                return;
            }
        }
    }

    /// Checks all connections again and again, for as long as the server runs.
    pub(crate) async fn watch(self: Arc<Self>) {
        let limits = &self.limits;
        let shortest = limits.header.min(limits.idle).min(limits.write);
        let pause = (shortest / 20).clamp(Duration::from_millis(10), Duration::from_millis(500));
        let mut open = self.open.subscribe();
        let is_any = |open: &Open| !open.connections.is_empty();
        while open.wait_for(is_any).await.is_ok() {
            self.open.borrow().of(None).for_each(|it| it.check());
            sleep(pause).await;
        }
    }
}

impl Place {
    /// Begins a request, if there is a place: streams of HTTP/2 are many to a connection. Where all
    /// are taken, one whose answer nobody reads has to end.
    pub(super) fn begin(&self) -> Answering {
        let Self {
            connections,
            connection,
        } = self;
        let exchange = connection.begin();
        let (limits, client) = (&connections.limits, connection.client);
        let has_place = connections.open.send_if_modified(|open| {
            let places = (open.requests, limits.connections + CLOSING);
            let own = || open.of(Some(client)).map(|it| it.requests()).sum();
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
