//! How long the calls of nodes take, without reading the clock for each.
//!
//! The first calls of a node are all measured, so a node that is called once or twice is measured
//! exactly. Later, every sixteenth call is measured and counts for sixteen. If measured calls
//! follow each other, the end of one is the beginning of the next.

use std::time::{Duration, Instant};

/// So many first calls of a node are measured; of the others, one in so many.
const SAMPLED: u64 = 16;

/// The clock as the session last read it.
pub(super) struct Timer {
    read: Instant,
    /// No call was made since.
    fresh: bool,
    /// When the session was first polled.
    started: Option<Instant>,
    /// When the last call began that was measured, and how long it took.
    last: Option<(Instant, Duration)>,
    /// Whether every call is measured.
    all: bool,
}

impl Timer {
    pub(super) fn new() -> Self {
        Self {
            read: Instant::now(),
            fresh: true,
            started: None,
            last: None,
            all: false,
        }
    }

    /// Measures every call from now on.
    pub(super) fn measure_all(&mut self) {
        self.all = true;
    }

    /// How many calls the one after `runs` others stands for.
    fn weight(&self, runs: u64) -> u32 {
        match runs {
            _ if self.all => 1,
            0..SAMPLED => 1,
            _ if runs.is_multiple_of(SAMPLED) => SAMPLED as u32,
            _ => 0,
        }
    }

    fn read_clock(&mut self) {
        self.read = Instant::now();
        self.fresh = true;
    }

    /// The beginning of a poll. True in the first one.
    pub(super) fn begin(&mut self) -> bool {
        self.read_clock();
        let first = self.started.is_none();
        self.started.get_or_insert(self.read);
        first
    }

    /// How long ago the first poll began.
    pub(super) fn elapsed(&self) -> Duration {
        self.started
            .map_or(Duration::ZERO, |started| started.elapsed())
    }

    /// When the clock was last read: at most one poll ago.
    pub(super) fn read(&self) -> Instant {
        self.read
    }

    /// When the last call began that was measured, and how long it took.
    pub(super) fn last(&self) -> Option<(Instant, Duration)> {
        self.last
    }

    /// Before a call of a node that has been called `runs` times.
    pub(super) fn before(&mut self, runs: u64) {
        if !self.fresh && self.weight(runs) > 0 {
            self.read_clock();
        }
    }

    /// After this call: what to charge the node with, if anything.
    pub(super) fn after(&mut self, runs: u64) -> Option<Duration> {
        let weight = self.weight(runs);
        if weight == 0 {
            self.fresh = false;
            return None;
        }
        let before = self.read;
        self.read_clock();
        let took = self.read - before;
        self.last = Some((before, took));
        Some(took * weight)
    }
}
