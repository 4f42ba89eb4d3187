//! Rules for recording sessions.

use std::{sync::Arc, time::Instant};

use serde_json::{Value, json};

use crate::config::Redaction;

/// The content of a recording.
#[derive(Clone, Debug)]
pub(crate) struct RecordingOptions {
    /// True to record the payloads of packets.
    pub(crate) payloads: bool,
    /// Texts in payloads that are hidden.
    pub(crate) redact: Arc<Redaction>,
}

/// A rule for recording the next sessions of a graph.
#[derive(Clone, Debug)]
pub(crate) struct RecordingRule {
    pub(crate) wanted: RecordingOptions,
    /// Name of the key whose requests are recorded; `None` for all.
    pub(crate) key: Option<String>,
    /// Share of the sessions to record, above 0 and up to 1.
    pub(crate) rate: f64,
    /// Number of further sessions to record.
    pub(crate) sessions: usize,
    /// Time when the rule ends.
    pub(crate) until: Instant,
    /// Number of sessions that the rule has seen.
    pub(crate) passed: u64,
}

impl RecordingRule {
    pub(super) fn is_active(&self) -> bool {
        self.sessions > 0 && Instant::now() < self.until
    }

    /// Returns true if the next session, of a request with this key, is recorded.
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
