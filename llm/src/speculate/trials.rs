//! Time budget for drafts that are not expected to pay.
//!
//! The benefit of drafts is known only if they are made. So a sequence whose drafts did not pay
//! tries again from time to time. All trials together take a fixed part of the time, however many
//! sequences try and however long their texts are.

/// Fraction of the time that trials may take.
const SHARE: f64 = 0.01;
/// Maximum saved budget, in steps. A trial that takes longer is not made.
const MOST_STEPS: f64 = 100.0;

/// Saved budget for trials in microseconds. It grows in steps in which drafts do not pay.
#[derive(Debug, Default)]
pub(super) struct Trials {
    saved: f64,
}

impl Trials {
    /// Adds a fraction of the time of a step to the budget.
    pub(super) fn earn(&mut self, step_micros: f64) {
        self.saved = (self.saved + SHARE * step_micros).min(MOST_STEPS * step_micros);
    }

    /// Subtracts the time of trials from the budget.
    pub(super) fn spend(&mut self, micros: f64) {
        self.saved -= micros;
    }

    /// Returns the remaining budget; below zero while the last trials took more.
    pub(super) fn budget(&self) -> f64 {
        self.saved
    }
}
