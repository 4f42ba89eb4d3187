//! Taps: the packets of some streams of a graph, for a viewer.
//!
//! A tap never slows a session. What its viewer does not take in time is dropped and counted, and
//! packets become text only on the side of the viewer.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use graphmill_engine::{Packet, Plan};
use tokio::sync::mpsc;

use super::{OpenSession, Sessions};

/// The packets that wait for a viewer: some writes to a connection, and not so many that large
/// payloads fill the memory.
const QUEUE: usize = 256;

/// A packet that a viewer gets.
pub(crate) struct Tapped {
    pub(crate) session: Arc<str>,
    /// The position of its stream among those of the tap.
    pub(crate) stream: usize,
    pub(crate) packet: Packet,
}

/// What is tapped, and where it goes.
pub(crate) struct Tap {
    /// The name of the graph, or of one version.
    graph: String,
    /// The id of the only session, if it is one.
    session: Option<String>,
    streams: Vec<String>,
    /// The share of packets that is shown.
    rate: f64,
    sender: mpsc::Sender<Tapped>,
    /// Packets of its streams so far.
    passed: AtomicU64,
    /// Packets that found no room, since the viewer was told.
    dropped: AtomicU64,
}

impl Tap {
    /// Whether this tap covers the session.
    pub(super) fn is_for(&self, session: &OpenSession) -> bool {
        let mut ids = self.session.iter();
        session.is_of(&self.graph) && ids.all(|id| **id == *session.id)
    }

    /// The streams of it that a plan has, and what takes their packets in a session.
    pub(super) fn of_session<'a>(
        self: &'a Arc<Self>,
        id: &Arc<str>,
        plan: &Plan,
    ) -> (
        Vec<&'a str>,
        impl FnMut(usize, &Packet) -> bool + Send + 'static + use<>,
    ) {
        let has = |stream: &str| plan.streams().any(|other| other == stream);
        let streams = self.streams.iter().enumerate();
        let streams = streams.filter(|(_, stream)| has(stream));
        let (places, streams): (Vec<usize>, Vec<&str>) = streams
            .map(|(place, stream)| (place, stream.as_str()))
            .unzip();
        let (tap, session) = (Arc::clone(self), Arc::clone(id));
        let sink = move |place: usize, packet: &Packet| tap.take(&session, places[place], packet);
        (streams, sink)
    }

    /// Takes a packet, if there is room for it. False: the viewer is gone.
    fn take(&self, session: &Arc<str>, stream: usize, packet: &Packet) -> bool {
        let passed = self.passed.fetch_add(1, Relaxed);
        let share = |packets: u64| (packets as f64 * self.rate) as u64;
        if share(passed) == share(passed + 1) {
            return !self.sender.is_closed();
        }
        let tapped = Tapped {
            session: Arc::clone(session),
            stream,
            packet: packet.clone(),
        };
        match self.sender.try_send(tapped) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.dropped.fetch_add(1, Relaxed);
                true
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        }
    }
}

/// A viewer's end of a tap, which ends with this.
pub(crate) struct Taps {
    sessions: Arc<Sessions>,
    tap: Arc<Tap>,
    packets: mpsc::Receiver<Tapped>,
}

impl Taps {
    /// The next packet.
    pub(crate) async fn next(&mut self) -> Option<Tapped> {
        self.packets.recv().await
    }

    /// The next packet, if one is there.
    pub(crate) fn try_next(&mut self) -> Option<Tapped> {
        self.packets.try_recv().ok()
    }

    /// How many packets were dropped since this was asked.
    pub(crate) fn dropped(&self) -> u64 {
        self.tap.dropped.swap(0, Relaxed)
    }

    /// The name of a stream.
    pub(crate) fn stream(&self, stream: usize) -> &str {
        &self.tap.streams[stream]
    }
}

impl Drop for Taps {
    fn drop(&mut self) {
        let mut state = self.sessions.lock();
        state.taps.retain(|tap| !Arc::ptr_eq(tap, &self.tap));
    }
}

impl Sessions {
    /// Taps streams of the open sessions of a graph and of those to come, or of one session: this
    /// share of their packets.
    pub(crate) fn tap(
        self: &Arc<Self>,
        graph: &str,
        session: Option<String>,
        streams: Vec<String>,
        rate: f64,
    ) -> Taps {
        let (sender, packets) = mpsc::channel(QUEUE);
        let tap = Arc::new(Tap {
            graph: graph.to_owned(),
            session,
            streams,
            rate,
            sender,
            passed: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        });
        let mut state = self.lock();
        state.taps.push(Arc::clone(&tap));
        let open = state.open.values().filter(|session| tap.is_for(session));
        let open: Vec<Arc<OpenSession>> = open.cloned().collect();
        drop(state);
        for session in open {
            let (streams, sink) = tap.of_session(&session.id, session.plan());
            // The plan has just these streams.
            let _ = session.viewer.watch(&streams, sink);
        }
        Taps {
            sessions: Arc::clone(self),
            tap,
            packets,
        }
    }
}
