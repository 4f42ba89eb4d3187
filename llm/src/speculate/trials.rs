//! How much time goes into drafts that are not expected to pay.
//!
//! Whether drafts pay is only known of those that are made. So a sequence whose drafts did not pay
//! tries again now and then. All trials together take a fixed part of the time, however many
//! sequences try and however long their texts are.

/// The part of the time that trials may take.
const SHARE: f64 = 0.01;
/// The most that is saved up, in steps. A trial that takes longer is not made.
const MOST_STEPS: f64 = 100.0;

/// Microseconds that trials may take, saved up in the steps in which drafts do not pay.
#[derive(Debug, Default)]
pub(super) struct Trials {
    saved: f64,
}

impl Trials {
    /// Saves a part of the time of a step.
    pub(super) fn earn(&mut self, step_micros: f64) {
        self.saved = (self.saved + SHARE * step_micros).min(MOST_STEPS * step_micros);
    }

    /// Counts time that trials took.
    pub(super) fn spend(&mut self, micros: f64) {
        self.saved -= micros;
    }

    /// What the next trials may take. Below zero while the last ones took more.
    pub(super) fn budget(&self) -> f64 {
        self.saved
    }
}
