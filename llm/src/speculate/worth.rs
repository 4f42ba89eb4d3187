//! Minimum benefit of a draft: the tokens of steps without drafts in the same time.
//!
//! Drafts of a fixed length take up to 1.5 times as long, and a fixed price up to 1.9 times
//! (`bench/results/2026-11-24-speculation.md`).

use crate::schedule::cost::{CostModel, StepSize};

/// Steps of the main model in which drafts are checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    /// Number of decoding sequences, with or without drafts.
    pub(super) decodes: u32,
    /// Cost of a step of the main model by its rows, in microseconds.
    pub(super) cost: LinearCost,
    /// True if all decoding sequences must draft the same number of tokens.
    pub(super) same_length: bool,
    /// True if drafts must save time.
    pub(super) controlled: bool,
}

impl Steps {
    /// Microseconds of one token in steps without drafts.
    pub(super) fn token_micros(&self) -> f64 {
        self.cost.for_rows(self.decodes) / f64::from(self.decodes.max(1))
    }

    /// Returns the minimum chance of a draft that takes a row and `more_micros` more microseconds:
    /// the number of tokens that steps without drafts give in that time. If drafts need not save
    /// time, any chance suffices.
    pub(super) fn price(&self, more_micros: f64) -> f32 {
        if !self.controlled {
            return f32::NEG_INFINITY;
        }
        ((more_micros + self.cost.row) / self.token_micros()) as f32
    }
}

/// A possible step: its expected tokens, its rows, and the sub-batches that these take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Yield {
    pub(crate) tokens: f64,
    pub(crate) rows: u32,
    pub(crate) passes: u32,
}

impl Yield {
    /// Expected tokens per unit of time.
    pub(crate) fn rate(self, cost: LinearCost) -> f64 {
        let more_passes = f64::from(self.passes - 1) * cost.base;
        self.tokens / (cost.for_rows(self.rows) + more_passes)
    }
}

/// A cost that grows by the same amount with each row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinearCost {
    base: f64,
    row: f64,
}

impl LinearCost {
    /// Cost of a processor that reads the weights once for all rows, for which that is two thirds
    /// of a step with one row.
    pub(crate) const ASSUMED: Self = Self {
        base: 0.7,
        row: 0.3,
    };

    /// Returns the microseconds of a step with these decodes, by its number of rows. If recent
    /// steps do not show the price of a row, the assumed one is used: an untried row would
    /// otherwise count as free.
    pub(crate) fn learned(model: &CostModel, decodes: &StepSize) -> Self {
        let sequences = decodes.decode_tokens.max(1);
        let step = model.decode_micros(decodes).max(1.0);
        let row = if model.knows_decode_tokens() {
            let more = StepSize {
                decode_tokens: sequences * 2,
                attended_cells: decodes.attended_cells * 2,
                ..*decodes
            };
            (model.decode_micros(&more) - step).max(0.0) / f64::from(sequences)
        } else {
            step * Self::ASSUMED.row / Self::ASSUMED.for_rows(sequences)
        };
        Self {
            base: step - row * f64::from(sequences),
            row,
        }
    }

    /// Returns the cost of a step with this many rows.
    pub(crate) fn for_rows(self, rows: u32) -> f64 {
        self.base + self.row * f64::from(rows)
    }
}
