//! Budget per minute, of tokens or of requests. It fills up over time. Requests take the tokens that
//! they may need, and return the unused ones.

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};

/// A budget of a key. It holds at most what a minute gives. A request that sets no
/// maximum may overdraw it with generated tokens; the next request waits longer then.
#[derive(Debug)]
pub(super) struct Bucket {
    per_minute: NonZeroU32,
    level: Mutex<BucketLevel>,
}

#[derive(Debug)]
struct BucketLevel {
    tokens: f64,
    at: Instant,
}

impl Bucket {
    /// Creates a full budget, which holds `per_minute` tokens.
    pub(super) fn new(per_minute: NonZeroU32) -> Self {
        Self {
            per_minute,
            level: Mutex::new(BucketLevel {
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

    /// Returns the time in which this number of tokens fills up.
    fn time_of(&self, tokens: f64) -> Duration {
        Duration::from_secs_f64((tokens / self.most() * 60.0).max(0.0))
    }

    /// Locks the level, after adding the tokens since the last call.
    fn level(&self) -> MutexGuard<'_, BucketLevel> {
        let mut level = self.level.lock();
        let now = Instant::now();
        let gained = now.duration_since(level.at).as_secs_f64() / 60.0 * self.most();
        level.tokens = (level.tokens + gained).min(self.most());
        level.at = now;
        level
    }

    /// Takes tokens, if the budget has as many. Returns the number of remaining ones, or the time
    /// in which the missing ones fill up. The budget never holds more than a minute gives.
    pub(super) fn take(&self, tokens: u64) -> Result<u32, Duration> {
        let tokens = tokens as f64;
        let mut level = self.level();
        if tokens > level.tokens {
            return Err(self.time_of(tokens - level.tokens));
        }
        level.tokens -= tokens;
        Ok(level.tokens as u32)
    }

    /// Returns unused tokens, or takes the ones that were used in addition.
    pub(super) fn settle(&self, taken: u64, used: u64) {
        let mut level = self.level();
        level.tokens = (level.tokens + taken as f64 - used as f64).min(self.most());
    }

    /// Returns the number of available tokens, and the time until the budget is full.
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
        assert_eq!(bucket.take(60), Ok(0));
        assert!(bucket.take(10).is_err_and(|wait| wait.as_secs() >= 9));
        bucket.settle(60, 20);
        assert_eq!(bucket.take(40), Ok(0));
    }

    #[test]
    fn what_is_used_beyond_is_a_debt() {
        let bucket = bucket(60);
        bucket.settle(0, 120);
        assert_eq!(bucket.left().0, 0);
        assert!(bucket.take(1).is_err_and(|wait| wait.as_secs() >= 60));
    }

    #[test]
    fn there_is_never_more_than_a_minute_gives() {
        let bucket = bucket(60);
        assert!(bucket.take(61).is_err());
        bucket.settle(100, 0);
        assert_eq!(bucket.left().0, 60);
    }
}
