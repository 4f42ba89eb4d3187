//! Estimated pace of the queue, for clients that find it full.

use std::collections::VecDeque;
use std::time::Duration;

/// Number of freed slots that the pace is measured over. A queue's length is some multiple of the
/// slots, and older events say little about the present.
const MAX_ENDS: usize = 64;

/// Times at which slots became free while sequences waited, in microseconds.
#[derive(Debug, Default)]
pub(super) struct Drain {
    /// Time since which sequences have been waiting.
    since: Option<i64>,
    /// Latest times at which slots became free, in order.
    ends: VecDeque<i64>,
}

impl Drain {
    /// Notes whether sequences wait. If none do, the measurements are dropped.
    pub(super) fn observe(&mut self, waiting: bool, now: i64) {
        if waiting {
            self.since.get_or_insert(now);
        } else {
            *self = Self::default();
        }
    }

    /// Notes that a sequence has left its slot.
    pub(super) fn freed(&mut self, now: i64) {
        if self.since.is_none() {
            return;
        }
        self.ends.push_back(now);
        if self.ends.len() > MAX_ENDS {
            self.since = self.ends.pop_front();
        }
    }

    /// Average time until a slot becomes free. Before the first one has, a lower bound: the elapsed
    /// time divided by `slots`.
    pub(super) fn pace(&self, slots: u32, now: i64) -> Duration {
        let Some(since) = self.since else {
            return Duration::ZERO;
        };
        let ends = match self.ends.len() {
            0 => i64::from(slots.max(1)),
            ends => ends as i64,
        };
        Duration::from_micros(((now - since).max(0) / ends) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn the_pace_is_that_of_slots_that_become_free() {
        let mut drain = Drain::default();
        drain.freed(0);
        assert_eq!(drain.pace(4, 5 * SECOND), Duration::ZERO, "nobody waits");

        drain.observe(true, 10 * SECOND);
        assert_eq!(
            drain.pace(4, 12 * SECOND),
            Duration::from_millis(500),
            "a generation takes at least two seconds, and four run"
        );
        for _ in 0..4 {
            drain.freed(14 * SECOND);
        }
        assert_eq!(drain.pace(4, 14 * SECOND), Duration::from_secs(1));
        assert_eq!(
            drain.pace(4, 22 * SECOND),
            Duration::from_secs(3),
            "nothing has ended since"
        );
    }

    #[test]
    fn only_the_latest_ends_count_and_none_from_before_the_queue_was_empty() {
        let mut drain = Drain::default();
        drain.observe(true, 0);
        for second in 1..=1000 {
            drain.freed(second * 10 * SECOND);
        }
        for end in 1..=1000 {
            drain.freed(10_000 * SECOND + end * SECOND);
        }
        assert_eq!(drain.pace(4, 11_000 * SECOND), Duration::from_secs(1));
        drain.observe(false, 11_000 * SECOND);
        drain.observe(true, 12_000 * SECOND);
        assert_eq!(drain.pace(4, 12_000 * SECOND), Duration::ZERO);
    }
}
