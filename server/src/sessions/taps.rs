//! Taps: the packets of some streams of a graph, for a viewer.
//!
//! A tap never slows a session. Packets that its viewer does not take in time are dropped and
//! counted. Packets are formatted only on the viewer's side.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use graphmill_engine::{Packet, Plan};
use tokio::sync::mpsc;

use super::{OpenSession, Sessions};

/// Maximum number of packets that wait for a viewer: some writes to a connection, and few enough
/// that large payloads do not fill the memory.
const QUEUE: usize = 256;

/// A packet for a viewer.
pub(crate) struct TappedPacket {
    pub(crate) session: Arc<str>,
    pub(crate) stream: Arc<str>,
    pub(crate) packet: Packet,
}

/// A tap: its streams, and the queue of its viewer.
pub(crate) struct Tap {
    /// Name of the graph, or of a version.
    graph: String,
    /// Id of the session; `None` for all sessions.
    session: Option<String>,
    streams: Vec<Arc<str>>,
    /// Share of the packets to send.
    rate: f64,
    sender: mpsc::Sender<TappedPacket>,
    /// Number of packets of its streams so far.
    passed: AtomicU64,
    /// Number of packets dropped since the viewer was notified.
    dropped: AtomicU64,
}

impl Tap {
    /// Returns true if this tap covers the session.
    pub(super) fn is_for(&self, session: &OpenSession) -> bool {
        let mut ids = self.session.iter();
        session.is_of(&self.graph) && ids.all(|id| **id == *session.id)
    }

    /// Returns the tapped streams that a plan has, and a sink for their packets in a session.
    pub(super) fn follow_session<'a>(
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
        let streams = streams.map(|(place, stream)| (place, &**stream));
        let (places, streams): (Vec<usize>, Vec<&str>) = streams.unzip();
        let (tap, session) = (Arc::clone(self), Arc::clone(id));
        let sink = move |place: usize, packet: &Packet| {
            tap.take(&session, &tap.streams[places[place]], packet)
        };
        (streams, sink)
    }

    /// Queues a packet, if there is space. Returns false if the viewer is gone.
    fn take(&self, session: &Arc<str>, stream: &Arc<str>, packet: &Packet) -> bool {
        let passed = self.passed.fetch_add(1, Relaxed);
        let share = |packets: u64| (packets as f64 * self.rate) as u64;
        if share(passed) == share(passed + 1) {
            return !self.sender.is_closed();
        }
        let tapped = TappedPacket {
            session: Arc::clone(session),
            stream: Arc::clone(stream),
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

/// The viewer's end of a tap. Dropping it ends the tap.
pub(crate) struct Taps {
    sessions: Arc<Sessions>,
    tap: Arc<Tap>,
    packets: mpsc::Receiver<TappedPacket>,
}

impl Taps {
    /// Waits for a packet, and returns the available ones, at most `most`.
    pub(crate) async fn next(&mut self, most: usize) -> Vec<TappedPacket> {
        let mut packets = Vec::new();
        self.packets.recv_many(&mut packets, most).await;
        packets
    }

    /// Returns the number of packets dropped since the last call.
    pub(crate) fn dropped(&self) -> u64 {
        self.tap.dropped.swap(0, Relaxed)
    }
}

impl Drop for Taps {
    fn drop(&mut self) {
        let mut state = self.sessions.lock();
        state.taps.retain(|tap| !Arc::ptr_eq(tap, &self.tap));
    }
}

impl Sessions {
    /// Taps streams of a graph's open and future sessions, or of one session, for a share of their
    /// packets.
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
            streams: streams.into_iter().map(Into::into).collect(),
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
            let (streams, sink) = tap.follow_session(&session.id, session.plan());
            // The plan has exactly these streams.
            let _ = session.observer.observe_packets(&streams, sink);
        }
        Taps {
            sessions: Arc::clone(self),
            tap,
            packets,
        }
    }
}
