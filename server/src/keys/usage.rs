//! Usage of a key's limits. It survives changes of the key file.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use super::{bucket::Bucket, key::KeyEntry};

/// The limits of a key, and their usage by requests.
#[derive(Debug)]
pub(super) struct Usage {
    /// Number that is unique in the process. The key keeps it as long as it is in the file.
    pub(super) number: u64,
    pub(super) requests: Option<Arc<Bucket>>,
    pub(super) tokens: Option<Arc<Bucket>>,
    /// Number of sequences of running requests.
    pub(super) sequences: Arc<AtomicU32>,
    pub(super) queued: Arc<QueueUsage>,
}

/// The requests of a key that wait for a slot, and their prompt tokens.
#[derive(Debug, Default)]
pub(super) struct QueueUsage {
    pub(super) requests: AtomicU64,
    pub(super) prompt_tokens: AtomicU64,
}

/// Adds to a count, unless the sum exceeds `most`. With `alone`, any amount is accepted if the
/// count is 0.
pub(super) fn add(
    count: &AtomicU64,
    more: u64,
    most: Option<NonZeroU32>,
    alone: bool,
) -> Result<(), u64> {
    let fits = |now: u64| {
        let sum = now + more;
        let is_room = most.is_none_or(|most| sum <= u64::from(most.get()));
        (is_room || (alone && now == 0)).then_some(sum)
    };
    count.fetch_update(Relaxed, Relaxed, fits).map(drop)
}

impl Usage {
    /// Creates the usage of a key. Counts in `before` continue if their limit has not changed.
    pub(super) fn new(entry: &KeyEntry, before: Option<&Self>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let bucket = |most: Option<NonZeroU32>, before: Option<&Arc<Bucket>>| {
            let most = most?;
            let same = before.filter(|same| same.per_minute() == most);
            Some(same.map_or_else(|| Arc::new(Bucket::new(most)), Arc::clone))
        };
        let requests = before.and_then(|before| before.requests.as_ref());
        let tokens = before.and_then(|before| before.tokens.as_ref());
        Self {
            number: before.map_or_else(|| NEXT.fetch_add(1, Relaxed), |before| before.number),
            requests: bucket(entry.requests_per_minute, requests),
            tokens: bucket(entry.tokens_per_minute, tokens),
            sequences: before.map_or_else(Arc::default, |before| Arc::clone(&before.sequences)),
            queued: before.map_or_else(Arc::default, |before| Arc::clone(&before.queued)),
        }
    }

    /// Returns true if some of the token budget is still used.
    pub(super) fn is_in_debt(&self) -> bool {
        let missing = |bucket: &Arc<Bucket>| !bucket.left().1.is_zero();
        self.tokens.as_ref().is_some_and(missing)
    }

    /// Writes the remaining limits as headers. `requests` is the result of the last count.
    pub(super) fn write_headers(&self, requests: Option<u32>, headers: &mut HeaderMap) {
        if let (Some(limit), Some(left)) = (&self.requests, requests) {
            let most = limit.per_minute().get();
            let missing = f64::from(most.saturating_sub(left)) / f64::from(most);
            write(headers, "requests", most, left, missing * 60.0);
        }
        if let Some(bucket) = &self.tokens {
            let (left, full_after) = bucket.left();
            let most = bucket.per_minute().get();
            write(headers, "tokens", most, left, full_after.as_secs_f64());
        }
    }
}

fn write(headers: &mut HeaderMap, what: &str, most: u32, left: u32, full_after: f64) {
    let values = [
        ("limit", most.to_string()),
        ("remaining", left.to_string()),
        ("reset", format!("{}s", full_after.ceil())),
    ];
    for (kind, value) in values {
        let name = HeaderName::try_from(format!("x-ratelimit-{kind}-{what}"));
        if let (Ok(name), Ok(value)) = (name, HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
}
