//! A session that is polled by hand, in the calling thread.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use graphmill_engine::{Handle, Packet, Plan, RunCx, Session, SidePackets};

/// A session, its handle, and a count of the packets that came out of `out`.
pub struct Driver {
    session: Session,
    handle: Handle,
    seen: Arc<AtomicU64>,
    time: i64,
}

impl Driver {
    /// Makes a session of `plan`, whose graph has an input `in` and a stream `out`. It is not
    /// polled yet.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn new(plan: &Arc<Plan>) -> Self {
        let (mut session, handle) =
            Session::new(plan, RunCx::new("bench"), SidePackets::new()).expect("starts");
        let seen = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&seen);
        session
            .observe("out", false, move |_, _| {
                counter.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
            .expect("the graph has a stream `out`");
        Self {
            session,
            handle,
            seen,
            time: 0,
        }
    }

    /// Makes a session that keeps a timeline of its last `events` events.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn with_timeline(plan: &Arc<Plan>, events: usize) -> Self {
        let mut driver = Self::new(plan);
        driver.session.keep_timeline(events, |_, _| {});
        driver
    }

    ///
    /// Polls the session once.
    ///
    /// # Panics
    ///
    /// If the session has failed.
    pub fn poll(&mut self) -> Poll<()> {
        let mut cx = Context::from_waker(Waker::noop());
        let polled = Pin::new(&mut self.session).poll(&mut cx);
        polled.map(|outcome| assert!(outcome.is_ok(), "the session failed: {outcome:?}"))
    }

    /// Pushes a packet.
    ///
    /// # Panics
    ///
    /// If there is no room for it.
    pub fn push(&mut self, packet: Packet) {
        let packet = packet.at(self.time);
        self.handle.try_push("in", packet).expect("there is room");
        self.time += 1;
    }

    /// Polls until `count` packets have come out since the beginning.
    pub fn run_until(&mut self, count: u64) {
        while self.seen.load(Ordering::Relaxed) < count {
            assert!(self.poll().is_pending(), "the session ended too early");
        }
    }

    /// Sends `packets` copies of `packet` through.
    pub fn pass(&mut self, packet: &Packet, packets: u64) {
        let target = self.seen.load(Ordering::Relaxed) + packets;
        (0..packets).for_each(|_| self.push(packet.clone()));
        self.run_until(target);
    }

    /// Closes the inputs and polls until the session has ended.
    pub fn finish(mut self) {
        self.handle.close_all();
        while self.poll().is_pending() {}
    }
}
