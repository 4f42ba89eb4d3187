//! Rules for when an engine counts as failed, and when it is restarted. The caller passes the time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::settings::STEP_TOKENS;
use crate::worker::PulseState;

/// Minimum and maximum interval between looks at an engine. The end of its thread is reported at
/// once, so the interval matters only for steps that do not end.
const PERIODS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));
/// Time for which a restart counts against the limit.
const WINDOW: Duration = Duration::from_mins(10);
/// Delay before the second restart. The first has no delay, each further one twice the delay
/// before.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// Maximum delay before a restart.
const LONGEST_DELAY: Duration = Duration::from_mins(1);

/// Notices that an engine is dead or hangs.
#[derive(Debug)]
pub(super) struct Watch {
    /// Time limit for a step of [`STEP_TOKENS`]; `None` for no limit.
    step_timeout: Option<Duration>,
    /// Progress at the last change or idle look, with its time.
    last: Option<(u64, Instant)>,
}

impl Watch {
    pub(super) fn new(step_timeout: Option<Duration>) -> Self {
        Self {
            step_timeout,
            last: None,
        }
    }

    /// Returns the reason why the engine must be abandoned, if there is one.
    pub(super) fn look(&mut self, seen: PulseState, now: Instant) -> Option<String> {
        if seen.stopped {
            return Some("its thread has ended".to_owned());
        }
        let timeout = self.step_timeout? * seen.batch.div_ceil(STEP_TOKENS).max(1);
        match self.last {
            Some((progress, since)) if progress == seen.progress && !seen.idle => {
                let overdue = now.saturating_duration_since(since) >= timeout;
                overdue.then(|| format!("a step has not ended in {timeout:?} (step_timeout)"))
            }
            _ => {
                self.last = Some((seen.progress, now));
                None
            }
        }
    }

    /// Time until the next look.
    pub(super) fn period(&self) -> Duration {
        let (least, most) = PERIODS;
        self.step_timeout
            .map_or(most, |timeout| (timeout / 8).clamp(least, most))
    }
}

/// Counts restarts, and delays or ends them.
#[derive(Debug)]
pub(super) struct Attempts {
    /// Maximum number of restarts within [`WINDOW`].
    most: usize,
    /// Times of restarts within [`WINDOW`], at most `most`.
    recent: VecDeque<Instant>,
}

impl Attempts {
    pub(super) fn new(most: u32) -> Self {
        Self {
            most: most as usize,
            recent: VecDeque::new(),
        }
    }

    /// Delay before the next attempt; `None` if no more attempts are allowed.
    pub(super) fn next(&mut self, now: Instant) -> Option<Duration> {
        let old = |at: &Instant| now.saturating_duration_since(*at) >= WINDOW;
        while self.recent.front().is_some_and(old) {
            self.recent.pop_front();
        }
        let before = self.recent.len();
        if before >= self.most {
            return None;
        }
        let delay = match u32::try_from(before).unwrap_or(u32::MAX) {
            0 => Duration::ZERO,
            nth => FIRST_DELAY.saturating_mul(1 << (nth - 1).min(16)),
        };
        let delay = delay.min(LONGEST_DELAY);
        self.recent.push_back(now + delay);
        Some(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn busy(progress: u64, batch: u32) -> PulseState {
        PulseState {
            progress,
            batch,
            ..PulseState::default()
        }
    }

    #[test]
    fn a_step_that_takes_too_long_is_noticed_and_a_slow_engine_is_not() {
        let start = Instant::now();
        let mut watch = Watch::new(Some(10 * SECOND));
        // A step of 9 s after the other.
        for second in 0..100 {
            let seen = busy(u64::from(second / 9), 8);
            assert_eq!(watch.look(seen, start + SECOND * second), None, "{second}");
        }
        let seen = busy(99, 8);
        assert_eq!(watch.look(seen, start + SECOND * 200), None);
        assert_eq!(watch.look(seen, start + SECOND * 209), None);
        let why = watch.look(seen, start + SECOND * 210);
        assert!(why.is_some_and(|why| why.contains("10s (step_timeout)")));
    }

    #[test]
    fn a_larger_step_may_take_longer() {
        let start = Instant::now();
        let mut watch = Watch::new(Some(10 * SECOND));
        let seen = busy(1, 4 * STEP_TOKENS);
        assert_eq!(watch.look(seen, start), None);
        assert_eq!(watch.look(seen, start + 39 * SECOND), None);
        assert!(watch.look(seen, start + 40 * SECOND).is_some());
    }

    #[test]
    fn idle_time_does_not_count() {
        let start = Instant::now();
        let mut watch = Watch::new(Some(10 * SECOND));
        let idle = PulseState {
            idle: true,
            ..busy(7, 0)
        };
        assert_eq!(watch.look(idle, start), None);
        assert_eq!(watch.look(idle, start + 1_000 * SECOND), None);
        // Work has come, and is not taken in.
        assert_eq!(watch.look(busy(7, 0), start + 1_009 * SECOND), None);
        assert!(watch.look(busy(7, 0), start + 1_010 * SECOND).is_some());
    }

    #[test]
    fn the_death_of_a_thread_is_noticed_even_without_a_timeout() {
        let mut watch = Watch::new(None);
        let now = Instant::now();
        assert_eq!(watch.look(busy(1, 1), now), None);
        assert_eq!(watch.look(busy(1, 1), now + 10_000 * SECOND), None);
        let dead = PulseState {
            stopped: true,
            ..busy(1, 1)
        };
        assert!(watch.look(dead, now).is_some());
    }

    #[test]
    fn attempts_wait_longer_and_longer_and_are_bounded() {
        let mut now = Instant::now();
        let mut attempts = Attempts::new(5);
        let mut waits = Vec::new();
        while let Some(delay) = attempts.next(now) {
            waits.push(delay.as_secs());
            now += delay;
        }
        assert_eq!(waits, [0, 1, 2, 4, 8]);
        assert_eq!(attempts.next(now + 5 * SECOND), None);
        // Those of long ago are forgiven.
        assert_eq!(attempts.next(now + WINDOW), Some(Duration::ZERO));
        assert_eq!(Attempts::new(0).next(now), None);
    }
}
