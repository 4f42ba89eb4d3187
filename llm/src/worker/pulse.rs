//! The heartbeat of an engine's thread.

use std::convert::Infallible;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError};
use serde::Serializer;

use crate::lock::lock;
use crate::measure::Counter;

/// Heartbeat of a thread. Its fields are independent of each other, so all accesses are `Relaxed`.
#[derive(Debug)]
pub(crate) struct Pulse {
    started: Instant,
    idle: AtomicBool,
    /// True if the thread was abandoned: its actions are ignored.
    abandoned: AtomicBool,
    beat_micros: Counter,
    /// Number of beats so far.
    beats: Counter,
    /// Number of requests sent to the thread; the next field counts those that it has received.
    pub(super) given: Counter,
    pub(crate) taken: Counter,
    /// Number of tokens in the present step.
    batch: AtomicU32,
    /// Nothing is ever sent here. It disconnects when the thread has ended.
    alive: Mutex<Option<Sender<Infallible>>>,
    ended: Receiver<Infallible>,
}

/// Observed state of a heartbeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PulseState {
    /// True if the thread has ended.
    pub(crate) stopped: bool,
    /// True if there is nothing to do.
    pub(crate) idle: bool,
    /// A number that changes whenever the thread does something.
    pub(crate) progress: u64,
    /// Number of tokens in the present step.
    pub(crate) batch: u32,
}

impl Default for Pulse {
    fn default() -> Self {
        let (alive, ended) = crossbeam_channel::bounded(0);
        Self {
            started: Instant::now(),
            idle: AtomicBool::new(true),
            abandoned: AtomicBool::new(false),
            beat_micros: Counter::default(),
            beats: Counter::default(),
            given: Counter::default(),
            taken: Counter::default(),
            batch: AtomicU32::new(0),
            alive: Mutex::new(Some(alive)),
            ended,
        }
    }
}

impl Pulse {
    /// Notes that the thread is about to compute this many tokens.
    pub(crate) fn begins(&self, tokens: usize) {
        self.batch.store(tokens as u32, Ordering::Relaxed);
    }

    /// Notes that the thread was abandoned.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    pub(super) fn abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Reads the present state of the heartbeat.
    pub(crate) fn look(&self) -> PulseState {
        // `given` is read last: a request that arrives in between counts as not yet received.
        let beats = self.beats.get();
        let taken = self.taken.get();
        let idle = self.idle();
        PulseState {
            stopped: self.stopped(),
            idle: idle && taken >= self.given.get(),
            progress: beats.wrapping_add(taken),
            batch: self.batch.load(Ordering::Relaxed),
        }
    }

    /// Notes that the thread ends.
    pub(super) fn end(&self) {
        lock(&self.alive).take();
    }

    /// Returns a channel that is disconnected once the thread has ended.
    pub(crate) fn ended(&self) -> &Receiver<Infallible> {
        &self.ended
    }

    /// Notes progress, or that there is nothing to do.
    pub(crate) fn beat(&self, idle: bool) {
        self.idle.store(idle, Ordering::Relaxed);
        self.beat_micros.set(self.age().as_micros() as u64);
        self.beats.add(1);
    }

    /// Time since the thread was started.
    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns true if the thread had nothing to do at its last beat.
    pub(crate) fn idle(&self) -> bool {
        self.idle.load(Ordering::Relaxed)
    }

    /// Returns true if the thread has ended.
    pub(crate) fn stopped(&self) -> bool {
        self.ended.try_recv() == Err(TryRecvError::Disconnected)
    }

    /// Returns the time that it has had work without making progress; zero while it is idle.
    pub(crate) fn stalled_for(&self) -> Duration {
        if self.idle() {
            return Duration::ZERO;
        }
        let last = Duration::from_micros(self.beat_micros.get());
        self.age().saturating_sub(last)
    }
}

/// Serializes the whole seconds of a time.
pub(crate) fn whole_seconds<S: Serializer>(
    time: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.as_secs())
}
