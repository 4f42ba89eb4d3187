//! Measurement of the duration of calls, without reading the clock for each.
//!
//! The first calls of a node are all measured, so the duration of a few calls is exact. Later,
//! every sixteenth call is measured and counts for sixteen. If measured calls follow each other,
//! the end of one is the start of the next.

use std::time::{Duration, Instant};

/// Number of first calls of a node that are measured, and distance of measured calls after that.
const SAMPLED: u64 = 16;

/// The clock as the session last read it.
pub(super) struct Timer {
    /// Last reading of the clock, which is at most one poll old.
    pub(super) read: Instant,
    /// Set if no call was made since.
    fresh: bool,
    /// Time of the first poll.
    started: Option<Instant>,
    /// Start and duration of the last measured call.
    pub(super) last: Option<(Instant, Duration)>,
    /// Set if every call is measured.
    pub(super) all: bool,
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

    /// Returns the number of calls that the call after `runs` others counts for; 0 if it is not
    /// measured.
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

    /// Starts a poll. Returns `true` in the first one.
    pub(super) fn begin(&mut self) -> bool {
        self.read_clock();
        let first = self.started.is_none();
        self.started.get_or_insert(self.read);
        first
    }

    /// Returns the time since the first poll began.
    pub(super) fn elapsed(&self) -> Duration {
        self.started
            .map_or(Duration::ZERO, |started| started.elapsed())
    }

    /// Prepares for a call of a node that has been called `runs` times.
    pub(super) fn before(&mut self, runs: u64) {
        if !self.fresh && self.weight(runs) > 0 {
            self.read_clock();
        }
    }

    /// Returns the duration to add to the node after this call, if any.
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
