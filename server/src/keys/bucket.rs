//! Tokens a minute: a budget that fills up over time, from which requests take what they may need,
//! and to which they give back what they did not.

use std::{
    num::NonZeroU32,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The budget of a key. It holds at most what fills up in a minute. It can be overdrawn by what a
/// request generates without having said how much: the next one waits longer then.
#[derive(Debug)]
pub(super) struct Bucket {
    per_minute: NonZeroU32,
    level: Mutex<Level>,
}

#[derive(Debug)]
struct Level {
    tokens: f64,
    at: Instant,
}

/// Why tokens cannot be taken.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// There are never as many.
    Never,
    /// There will be after this long.
    For(Duration),
}

impl Bucket {
    /// A full one.
    pub(super) fn new(per_minute: NonZeroU32) -> Self {
        Self {
            per_minute,
            level: Mutex::new(Level {
                tokens: f64::from(per_minute.get()),
                at: Instant::now(),
            }),
        }
    }

    pub(super) fn per_minute(&self) -> NonZeroU32 {
        self.per_minute
    }

    fn most(&self) -> f64 {
        f64::from(self.per_minute.get())
    }

    /// How long it takes to fill up by so many.
    fn time_of(&self, tokens: f64) -> Duration {
        Duration::from_secs_f64((tokens / self.most() * 60.0).max(0.0))
    }

    /// The level as of now.
    fn level(&self) -> MutexGuard<'_, Level> {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let gained = now.duration_since(level.at).as_secs_f64() / 60.0 * self.most();
        level.tokens = (level.tokens + gained).min(self.most());
        level.at = now;
        level
    }

    /// Takes so many, if there are as many.
    pub(super) fn take(&self, tokens: u64) -> Result<(), Lack> {
        let tokens = tokens as f64;
        if tokens > self.most() {
            return Err(Lack::Never);
        }
        let mut level = self.level();
        if tokens > level.tokens {
            return Err(Lack::For(self.time_of(tokens - level.tokens)));
        }
        level.tokens -= tokens;
        Ok(())
    }

    /// Gives back what was taken and not used, or takes what was used beyond it.
    pub(super) fn settle(&self, taken: u64, used: u64) {
        let mut level = self.level();
        level.tokens = (level.tokens + taken as f64 - used as f64).min(self.most());
    }

    /// What is left, and how long it takes to fill up.
    pub(super) fn left(&self) -> (u32, Duration) {
        let tokens = self.level().tokens;
        (tokens.max(0.0) as u32, self.time_of(self.most() - tokens))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(per_minute: u32) -> Bucket {
        Bucket::new(NonZeroU32::new(per_minute).expect("above 0"))
    }

    #[test]
    fn what_is_not_used_is_given_back() {
        let bucket = bucket(60);
        assert_eq!(bucket.take(60), Ok(()));
        assert!(matches!(bucket.take(10), Err(Lack::For(wait)) if wait.as_secs() >= 9));
        bucket.settle(60, 20);
        assert_eq!(bucket.take(40), Ok(()));
    }

    #[test]
    fn what_is_used_beyond_is_a_debt() {
        let bucket = bucket(60);
        bucket.settle(0, 120);
        assert_eq!(bucket.left().0, 0);
        assert!(matches!(bucket.take(1), Err(Lack::For(wait)) if wait.as_secs() >= 60));
    }

    #[test]
    fn there_is_never_more_than_a_minute_gives() {
        let bucket = bucket(60);
        assert_eq!(bucket.take(61), Err(Lack::Never));
        bucket.settle(100, 0);
        assert_eq!(bucket.left().0, 60);
    }
}
