//! Differences between two recordings, by stream and timestamp.

use std::{collections::BTreeSet, fmt::Write as _};

use serde_json::{Value, json};

use super::recording::{PacketRecord, Recording};

/// Maximum length in characters of a line for a packet.
const MAX_SHOWN: usize = 500;

/// Fields of answers that contain the current time.
pub(super) const TIMES: &[&str] = &["created", "created_at", "completed_at"];

/// Describes the differences between two runs, as lines; `None` if their packets are equal.
/// `producer` returns the node that produces a stream.
pub(crate) fn between(
    one: &Recording,
    other: &Recording,
    producer: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let (one, other) = (one.by_stream(), other.by_stream());
    let names = one.iter().chain(&other).map(|(name, _)| *name);
    let mut seen = BTreeSet::new();
    let mut text = String::new();
    for name in names.filter(|name| seen.insert(*name)) {
        let of = |streams: &[(&str, Vec<&PacketRecord>)]| -> Vec<Value> {
            let found = streams.iter().find(|(other, _)| *other == name);
            let packets = found.map_or(&[][..], |(_, packets)| packets);
            packets.iter().map(|packet| packet.shown()).collect()
        };
        let (one, other) = (of(&one), of(&other));
        if one == other {
            continue;
        }
        let node = producer(name).map_or(String::new(), |node| format!(" of node `{node}`"));
        let (left, right) = (one.len(), other.len());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "stream `{name}`{node}: {left} and {right} packets");
        lines(&one, &other, &mut text);
    }
    (!text.is_empty()).then_some(text)
}

/// Writes the packets that only one run has, grouped by timestamp.
fn lines(one: &[Value], other: &[Value], text: &mut String) {
    let (mut left, mut right) = (one.iter().peekable(), other.iter().peekable());
    loop {
        let (sign, packet) = match (left.peek(), right.peek()) {
            (None, None) => return,
            (Some(a), Some(b)) if a == b => {
                left.next();
                right.next();
                continue;
            }
            (Some(a), Some(b)) if is_later(a, b) => ('+', right.next()),
            (Some(_), _) => ('-', left.next()),
            (None, Some(_)) => ('+', right.next()),
        };
        let line = packet.map(ToString::to_string).unwrap_or_default();
        let shown: String = line.chars().take(MAX_SHOWN).collect();
        let cut = if shown.len() < line.len() { " ..." } else { "" };
        let _ = writeln!(text, "  {sign} {shown}{cut}");
    }
}

/// Returns true if a packet is later than another. Special timestamps are names, and keep their
/// order.
fn is_later(one: &Value, other: &Value) -> bool {
    match (one["timestamp"].as_i64(), other["timestamp"].as_i64()) {
        (Some(one), Some(other)) => one > other,
        _ => false,
    }
}

impl PacketRecord {
    /// Returns the compared and displayed parts.
    fn shown(&self) -> Value {
        let payload = self.without(TIMES);
        json!({ "timestamp": self.timestamp, "type": self.r#type, "payload": payload })
    }

    /// Returns the payload; in answers, without the fields `names`.
    pub(super) fn without(&self, names: &[&str]) -> Value {
        let mut payload = self.payload.clone();
        if self.r#type == "http_response" {
            leave_out(&mut payload, names);
        }
        payload
    }
}

fn leave_out(value: &mut Value, names: &[&str]) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !names.contains(&name.as_str()));
            fields.values_mut().for_each(|it| leave_out(it, names));
        }
        Value::Array(elements) => elements.iter_mut().for_each(|it| leave_out(it, names)),
        _ => {}
    }
}
