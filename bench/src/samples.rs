//! Many short measurements of the same thing.

use std::time::{Duration, Instant};

/// Measurements of one thing, ascending.
pub struct Samples(Vec<f64>);

impl Samples {
    /// Sorts numbers given in any order.
    pub fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// Calls `run` once to warm up and then measures `count` calls, each of which does `units`
    /// units of work. The samples are in nanoseconds per unit.
    pub fn time(count: usize, units: usize, mut run: impl FnMut()) -> Self {
        run();
        let sample = || {
            let begun = Instant::now();
            run();
            nanoseconds(begun.elapsed()) / units as f64
        };
        Self::new(std::iter::repeat_with(sample).take(count).collect())
    }

    /// Returns the smallest sample; 0 if there are none.
    pub fn fastest(&self) -> f64 {
        self.quantile(0.0)
    }

    /// Returns the median; 0 if there are no samples.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Returns the sample below which a share of `at` lies, from 0 to 1; 0 if there are none.
    pub fn quantile(&self, at: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        let index = (last as f64 * at).round() as usize;
        self.0.get(index).copied().unwrap_or(0.0)
    }
}

/// Converts a duration to nanoseconds.
pub fn nanoseconds(duration: Duration) -> f64 {
    duration.as_nanos() as f64
}
