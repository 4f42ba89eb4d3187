//! Measurements of an engine's requests and steps, as distributions that can be read at any time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::lock::lock;
use crate::protocol::{FinishReason, StepOutput};

/// Upper bounds for the duration of a request, in seconds.
pub const REQUEST_SECONDS: &[f64] = &[
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
];
/// Upper bounds for the time to a first token, in seconds.
const FIRST_TOKEN_SECONDS: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
];
/// Upper bounds for the time of a further token or a step, in seconds.
pub const TOKEN_SECONDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5,
];
/// Upper bounds for numbers of tokens.
pub(crate) const TOKENS: &[f64] = &[
    1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16_384.0, 65_536.0, 262_144.0,
];

/// Distribution of values over buckets with upper bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// Sum of all recorded values.
    pub sum: f64,
    /// Number of recorded values, over all buckets.
    pub count: u64,
    /// Upper bounds, the last of them infinite, each with the number of values between it and the
    /// bound before it.
    pub buckets: Vec<(f64, u64)>,
}

/// Declares measurements that can be read, and the recorders that they are read from: histograms
/// with their bounds, counters, and the numbers of requests that ended, by reason.
#[macro_export]
macro_rules! declare_measurements {
    (
        $(#[$about:meta])* pub struct $read:ident from $vis:vis $recorders:ident;
        histograms { $($(#[$of_histogram:meta])* $histogram:ident: $bounds:expr,)* }
        counters { $($(#[$of_counter:meta])* $counter:ident,)* }
        $(#[$of_ends:meta])* finished { $($end:ident: $reason:literal,)* }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $read {
            $($(#[$of_histogram])* pub $histogram: $crate::Histogram,)*
            $($(#[$of_counter])* pub $counter: u64,)*
            $(#[$of_ends])*
            pub finished: [(&'static str, u64); [$($reason),*].len()],
        }

        /// Recorders of measurements, written by the threads of an engine.
        #[derive(Debug)]
        $vis struct $recorders {
            $($vis $histogram: $crate::measure::Recorder,)*
            $($vis $counter: $crate::measure::Counter,)*
            $($vis $end: $crate::measure::Counter,)*
        }

        impl Default for $recorders {
            fn default() -> Self {
                Self {
                    $($histogram: $crate::measure::Recorder::new($bounds),)*
                    $($counter: $crate::measure::Counter::default(),)*
                    $($end: $crate::measure::Counter::default(),)*
                }
            }
        }

        impl $recorders {
            $vis fn read(&self) -> $read {
                $read {
                    $($histogram: self.$histogram.read(),)*
                    $($counter: self.$counter.get(),)*
                    finished: [$(($reason, self.$end.get())),*],
                }
            }
        }
    };
}

declare_measurements! {
    /// Measurements of an engine since it was loaded.
    pub struct Measurements from pub(crate) Recorders;
    histograms {
        /// Time from submission to first admission, in seconds.
        queue_seconds: REQUEST_SECONDS,
        /// Time from submission to the first token, in seconds.
        first_token_seconds: FIRST_TOKEN_SECONDS,
        /// Time between outputs of a request, in seconds.
        inter_token_seconds: TOKEN_SECONDS,
        /// Time per token after the first, averaged over a request, in seconds.
        token_seconds: TOKEN_SECONDS,
        /// Time from submission to the end of a request, in seconds.
        request_seconds: REQUEST_SECONDS,
        /// Number of prompt tokens of requests that ended.
        prompt_tokens: TOKENS,
        /// Number of generated tokens of requests that ended.
        generated_tokens: TOKENS,
        /// Duration of a step in seconds: computing the batch and choosing tokens.
        step_seconds: TOKEN_SECONDS,
        /// Number of tokens computed by a step.
        step_tokens: TOKENS,
    }
    counters {
        /// Number of prompt tokens that were reused from other sequences, over all requests that
        /// ended.
        cached_tokens,
    }
    /// Number of requests that ended, by reason: `stop`, `length`, `error` or `cancelled`.
    finished {
        stopped: "stop",
        full: "length",
        failed: "error",
        cancelled: "cancelled",
    }
}

/// A number that any thread may change and read. Nothing else depends on it.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to the number; it wraps around at the end of `u64`.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Returns the number, which other threads may change at any time.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A histogram that some threads write and others read. Each number is exact, but a reader may see
/// a count without its sum, or the reverse.
#[derive(Debug)]
pub struct Recorder {
    bounds: &'static [f64],
    counts: Box<[Counter]>,
    /// Sum in millionths, so that it can be added to atomically.
    sum: Counter,
}

impl Recorder {
    /// Creates an empty histogram; `bounds` are ascending upper bounds.
    pub fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: (0..=bounds.len()).map(|_| Counter::default()).collect(),
            sum: Counter::default(),
        }
    }

    /// Records a value, which must be at least 0.
    pub fn record(&self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket].add(1);
        self.sum.add((value * 1e6).round() as u64);
    }

    /// Reads the histogram of all values so far.
    pub fn read(&self) -> Histogram {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<_> = bounds.zip(self.counts.iter().map(Counter::get)).collect();
        Histogram {
            sum: self.sum.get() as f64 / 1e6,
            count: buckets.iter().map(|(_, count)| count).sum(),
            buckets,
        }
    }
}

/// Time that a generation has no slot: before its admission, and while it is preempted. Its engine
/// records it, and other threads can read it.
#[derive(Debug)]
pub struct SlotWait(Mutex<Waits>);

#[derive(Debug, Default)]
struct Waits {
    /// Sum of the waits that have ended.
    over: Duration,
    /// Start of the present wait, if there is one.
    since: Option<Instant>,
}

impl SlotWait {
    /// Returns the time until this moment.
    pub fn until(&self, now: Instant) -> Duration {
        let waits = lock(&self.0);
        let goes_on = waits.since.map(|since| now.duration_since(since));
        waits.over + goes_on.unwrap_or_default()
    }

    pub(crate) fn begin(&self, now: Instant) {
        lock(&self.0).since = Some(now);
    }

    pub(crate) fn end(&self, now: Instant) {
        let over = self.until(now);
        *lock(&self.0) = Waits { over, since: None };
    }
}

/// Times of a request that measurements need.
#[derive(Debug)]
pub(crate) struct Moments {
    pub(crate) submitted: Instant,
    pub(crate) slot_wait: Arc<SlotWait>,
    first: Option<Instant>,
    last: Option<Instant>,
}

impl Moments {
    /// Starts the times of a request that is submitted now and waits for a slot.
    pub(crate) fn now() -> Self {
        let submitted = Instant::now();
        let waits = Waits {
            since: Some(submitted),
            ..Waits::default()
        };
        Self {
            submitted,
            slot_wait: Arc::new(SlotWait(Mutex::new(waits))),
            first: None,
            last: None,
        }
    }
}

impl Recorders {
    /// Records a computed step and its number of tokens.
    pub(crate) fn step(&self, took: Duration, tokens: usize) {
        self.step_seconds.record(took.as_secs_f64());
        self.step_tokens.record(tokens as f64);
    }

    /// Records an output of a request at this moment.
    pub(crate) fn output(&self, moments: &mut Moments, now: Instant, output: &StepOutput) {
        let since = |earlier: Instant| now.duration_since(earlier).as_secs_f64();
        if let Some(last) = moments.last {
            self.inter_token_seconds.record(since(last));
        } else if !output.tokens.is_empty() {
            self.first_token_seconds.record(since(moments.submitted));
        }
        if !output.tokens.is_empty() {
            moments.first.get_or_insert(now);
            moments.last = Some(now);
        }
        let Some(finish) = &output.finish else { return };
        self.ended(finish);
        self.request_seconds.record(since(moments.submitted));
        self.prompt_tokens
            .record(f64::from(output.usage.prompt_tokens));
        self.cached_tokens
            .add(u64::from(output.usage.cached_tokens));
        self.generated_tokens
            .record(f64::from(output.usage.generated_tokens));
        let further = output.usage.generated_tokens.saturating_sub(1);
        if let Some(first) = moments.first.filter(|_| further > 0) {
            self.token_seconds.record(since(first) / f64::from(further));
        }
    }

    /// Records the end of a request that has no further output.
    pub(crate) fn ended(&self, finish: &FinishReason) {
        let counter = match finish {
            FinishReason::Stop => &self.stopped,
            FinishReason::Length => &self.full,
            FinishReason::Error(_) => &self.failed,
        };
        counter.add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fall_below_the_first_bound_that_is_not_smaller() {
        let recorder = Recorder::new(&[1.0, 2.0]);
        for value in [0.5, 1.0, 1.5, 3.0] {
            recorder.record(value);
        }
        let read = recorder.read();
        assert_eq!(read.buckets, [(1.0, 2), (2.0, 1), (f64::INFINITY, 1)]);
        assert_eq!((read.sum, read.count), (6.0, 4));
    }
}
