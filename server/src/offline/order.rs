//! The order of lines for each graph input.

use std::collections::HashMap;

use graphmill_engine::{Error, Timestamp};

use super::line::Line;

/// The order of sent lines, and the first line of each graph input that is too late. Most nodes
/// refuse such a packet when they process it.
#[derive(Default)]
pub(super) struct LineOrder(HashMap<String, StreamProgress>);

struct StreamProgress {
    /// Lowest timestamp that the next packet may have; `None` after the end.
    bound: Option<Timestamp>,
    late: Option<usize>,
}

impl LineOrder {
    /// Records a line before it is sent. Returns the stream of a packet if an earlier line has closed
    /// it.
    pub(super) fn note(&mut self, number: usize, line: &Line) -> Option<String> {
        let (stream, at, next) = match line {
            Line::Packet { stream, packet } => (stream, packet.time, Some(packet.time.next())),
            Line::Bound { stream, at } => (stream, *at, Some(*at)),
            Line::Close { stream } => (stream, Timestamp::MAX, None),
            Line::Side { .. } => return None,
        };
        let sent = self.0.entry(stream.clone()).or_insert(StreamProgress {
            bound: Some(at),
            late: None,
        });
        if sent.bound.is_none_or(|bound| at < bound) {
            sent.late.get_or_insert(number);
        }
        // A packet at `PreStream` or `PostStream` is the last one.
        let is_over = |bound: Timestamp| bound >= Timestamp::ONE_OVER_POST_STREAM;
        let is_closed = sent.bound.is_none_or(is_over) && matches!(line, Line::Packet { .. });
        sent.bound = sent.bound.and(next);
        is_closed.then(|| stream.clone())
    }

    /// Returns the number of the line that caused a session to fail by being too late.
    pub(super) fn at_fault(&self, error: &Error) -> Option<usize> {
        let is_named = |name: &str| error.message.contains(&format!("stream `{name}`"));
        let mut late = self.0.iter().filter(|(name, _)| is_named(name));
        late.find_map(|(_, sent)| sent.late)
    }
}
