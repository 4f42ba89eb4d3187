//! Times of an answer, by part and by node, for requests with `?timings=1`. They are in the member
//! `timings` of a JSON object, or in an event of that name after the end of a stream or after its
//! error.

use std::time::Duration;

use axum::http::{HeaderName, Uri};
use bytes::Bytes;
use graphmill_engine::{NodeSummary, Summary};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::run::Facts;

/// Header with the times of an answer.
pub(crate) const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// Name of the member and the event.
pub(crate) const NAME: &str = "timings";

/// Returns true if a request asks for the times of its answer.
pub(crate) fn are_asked(uri: &Uri) -> bool {
    let mut pairs = uri.query().unwrap_or_default().split('&');
    pairs.any(|pair| matches!(pair.strip_prefix(NAME), Some("" | "=" | "=1" | "=true")))
}

/// The times of an answer, in milliseconds. Times and token counts that do not apply are absent.
#[derive(Serialize)]
pub(crate) struct Timings(Map<String, Value>);

impl Timings {
    /// Describes an answer so far. `summary` is from its session, if that has ended without an
    /// error.
    pub(crate) fn new(entry: &Facts, summary: Option<&Summary>) -> Self {
        let parts = entry.parts().into_iter();
        let parts = parts.map(|(name, time)| (format!("{name}_ms"), milliseconds(time).into()));
        let tally = entry.tally.read();
        let counts = [
            ("prompt_tokens", tally.prompt),
            ("cached_tokens", tally.cached),
            ("generated_tokens", tally.generated),
        ];
        // Graphs of tensors count no tokens.
        let counts = counts.into_iter().filter(|_| tally.prompt > 0);
        let counts = counts.map(|(name, count)| (name.to_owned(), count.into()));
        // The total time of all calls. Calls of nodes that work outside of the session overlap.
        let node = |node: NodeSummary<'_>| {
            let (calls, ms) = (node.runs, milliseconds(node.time));
            let mut timing = json!({ "name": node.name, "calls": calls, "ms": ms });
            if let Some((first, last)) = node.called {
                let span = last.saturating_duration_since(first);
                timing["span_ms"] = milliseconds(span).into();
            }
            timing
        };
        let mut timings: Map<String, Value> = parts.chain(counts).collect();
        if let Some(summary) = summary {
            timings.insert("nodes".to_owned(), summary.nodes().map(node).collect());
        }
        Self(timings)
    }

    /// Writes the object for an event.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("names and numbers")
    }

    /// Inserts the object as the last member of a body; a body that is not a JSON object stays
    /// unchanged.
    pub(crate) fn within(&self, body: Bytes) -> Bytes {
        let end = body.iter().rposition(|byte| !byte.is_ascii_whitespace());
        let Some(end) = end.filter(|&end| body[0] == b'{' && body[end] == b'}') else {
            return body;
        };
        let members = body[1..end].iter().any(|byte| !byte.is_ascii_whitespace());
        let comma = if members { "," } else { "" };
        let timings = format!("{comma}\"{NAME}\":{}}}", self.to_json());
        [&body[..end], timings.as_bytes()].concat().into()
    }
}

/// Converts a time to milliseconds, rounded to microseconds.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
