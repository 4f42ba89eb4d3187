//! Times of an answer, part by part and node by node, for requests with `?timings=1`: the member
//! `timings` of a JSON object, or an event of that name behind the end of a stream, or behind the
//! error that ended it.

use std::time::Duration;

use axum::http::{HeaderName, Uri};
use bytes::Bytes;
use graphmill_engine::{NodeSummary, Summary};
use serde::Serialize;

use crate::run::Facts;

/// The header that says what an answer took.
pub(crate) const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// The member and the event.
pub(crate) const NAME: &str = "timings";

/// Returns true if a request asks for the times of its answer.
pub(crate) fn are_asked(uri: &Uri) -> bool {
    let mut pairs = uri.query().unwrap_or_default().split('&');
    pairs.any(|pair| matches!(pair.strip_prefix(NAME), Some("" | "=" | "=1" | "=true")))
}

/// All times are in milliseconds. Times and token counts that a request does not have are left out.
#[derive(Serialize)]
pub(crate) struct Timings<'a> {
    #[serde(flatten)]
    parts: serde_json::Map<String, serde_json::Value>,
    /// Absent where the session failed or goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<Vec<Node<'a>>>,
}

/// Time of all calls of a node. Calls of a node that works outside of the session
/// overlap with others.
#[derive(Serialize)]
struct Node<'a> {
    name: &'a str,
    calls: u64,
    ms: f64,
    /// From the beginning of the first call to the end of the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    span_ms: Option<f64>,
}

impl<'a> Timings<'a> {
    /// Describes an answer so far, with the nodes of the session that has ended for it, if one has.
    pub(crate) fn new(entry: &Facts, summary: Option<&'a Summary>) -> Self {
        let parts = entry.parts().into_iter();
        let parts = parts.map(|(name, time)| (format!("{name}_ms"), milliseconds(time).into()));
        let tally = entry.tally.read();
        let counts = [
            ("prompt_tokens", tally.prompt),
            ("cached_tokens", tally.cached),
            ("generated_tokens", tally.generated),
        ];
        // Graphs of tensors count none.
        let counts = counts.into_iter().filter(|_| tally.prompt > 0);
        let counts = counts.map(|(name, count)| (name.to_owned(), count.into()));
        let node = |node: NodeSummary<'a>| Node {
            name: node.name,
            calls: node.runs,
            ms: milliseconds(node.time),
            span_ms: node
                .called
                .map(|(first, last)| milliseconds(last.saturating_duration_since(first))),
        };
        Self {
            parts: parts.chain(counts).collect(),
            nodes: summary.map(|summary| summary.nodes().map(node).collect()),
        }
    }

    /// The object as an event has it.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("names and numbers")
    }

    /// The body with the object as its last member; as it was where it is no object.
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

/// Rounded to microseconds.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
