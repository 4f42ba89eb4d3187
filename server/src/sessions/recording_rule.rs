//! Which sessions are recorded, and what of them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::config::Redaction;

/// What a request or a rule wants to have recorded.
#[derive(Clone, Debug)]
pub(crate) struct RecordingOptions {
    /// Whether that is what packets carry, too.
    pub(crate) payloads: bool,
    /// What of it is not to be seen.
    pub(crate) redact: Arc<Redaction>,
}

/// Which of the coming sessions of a graph are recorded.
#[derive(Clone, Debug)]
pub(crate) struct RecordingRule {
    pub(crate) wanted: RecordingOptions,
    /// The name of the key whose requests they are of; of all if there is none.
    pub(crate) key: Option<String>,
    /// The share of the sessions.
    pub(crate) rate: f64,
    /// How many more are recorded.
    pub(crate) sessions: usize,
    /// Until when.
    pub(crate) until: Instant,
    /// How many sessions there were.
    passed: u64,
}

impl RecordingRule {
    pub(crate) fn new(
        wanted: RecordingOptions,
        key: Option<String>,
        rate: f64,
        sessions: usize,
        time: Duration,
    ) -> Self {
        Self {
            wanted,
            key,
            rate,
            sessions,
            until: Instant::now() + time,
            passed: 0,
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.sessions > 0 && Instant::now() < self.until
    }

    /// Whether the next session is recorded, whose request has a key of this name.
    pub(super) fn takes(&mut self, key: Option<&str>) -> bool {
        if self.key.is_some() && self.key.as_deref() != key {
            return false;
        }
        let share = |sessions: u64| (sessions as f64 * self.rate) as u64;
        let takes = share(self.passed) != share(self.passed + 1);
        self.passed += 1;
        takes
    }

    pub(crate) fn json(&self) -> Value {
        let left = self.until.saturating_duration_since(Instant::now());
        json!({
            "key": self.key,
            "rate": self.rate,
            "sessions": self.sessions,
            "payloads": self.wanted.payloads,
            "seconds": left.as_secs_f64().ceil() as u64,
        })
    }
}
