//! Times of an answer, in nanoseconds.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use graphmill_engine::RunCx;
use serde_json::Value;

use crate::payload::{Account, Tally};

/// A clock for the times of an answer.
pub(in crate::http) struct AnswerClock {
    /// Time at which the request arrived.
    received: Instant,
    /// Time at which its graph was loaded.
    begun: Instant,
    tally: Option<Arc<Tally>>,
}

impl AnswerClock {
    /// Creates the clock for a run whose graph is loaded since `begun`.
    pub(in crate::http) fn new(run: &RunCx, begun: Instant) -> Self {
        let account = Account::find(run);
        Self {
            received: account.and_then(|it| it.received).unwrap_or(begun),
            begun,
            tally: account.map(|account| Arc::clone(&account.tally)),
        }
    }

    /// Adds the total time, and the time until the graph was loaded.
    pub(in crate::http) fn tell(&self, answer: &mut Value) {
        let loaded = self.begun.saturating_duration_since(self.received);
        answer["total_duration"] = nanoseconds(self.received.elapsed());
        answer["load_duration"] = nanoseconds(loaded);
    }

    /// Adds the times of the prompt and of the text, if they are measured: up to the first token,
    /// and from there to the last.
    pub(super) fn tell_of_tokens(&self, answer: &mut Value) {
        let Some(tallied) = self.tally.as_ref().map(|tally| tally.read()) else {
            return;
        };
        if let Some(prefill) = tallied.prefill {
            answer["prompt_eval_duration"] = nanoseconds(prefill);
        }
        answer["eval_duration"] = nanoseconds(tallied.decoding);
    }
}

fn nanoseconds(time: Duration) -> Value {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).into()
}
