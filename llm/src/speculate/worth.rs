//! What a draft has to be worth: as much as steps without drafts give in the time that it takes.

use crate::schedule::cost::{CostModel, StepSize};

/// The steps that drafts are for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    /// Sequences that decode, with drafts or without.
    pub(super) decodes: u32,
    /// What a step of the main model costs, in microseconds, by its rows.
    pub(super) cost: LinearCost,
    /// Whether all sequences that decode have to draft equally many tokens.
    pub(super) same_length: bool,
    /// Whether drafts have to save time.
    pub(super) controlled: bool,
}

impl Steps {
    /// Microseconds that a token of a step without drafts takes.
    pub(super) fn token_micros(&self) -> f64 {
        self.cost.of(self.decodes) / f64::from(self.decodes.max(1))
    }

    /// What the chance of a draft has to be at least that takes a row and so many more
    /// microseconds: in that time, steps without drafts give as many tokens. Any chance is enough
    /// where drafts need not save time.
    pub(super) fn price(&self, more_micros: f64) -> f32 {
        if !self.controlled {
            return f32::NEG_INFINITY;
        }
        ((more_micros + self.cost.row) / self.token_micros()) as f32
    }
}

/// What a step could compute: the tokens it is expected to yield, its rows, and the sub-batches
/// that these take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Yield {
    pub(crate) tokens: f64,
    pub(crate) rows: u32,
    pub(crate) passes: u32,
}

impl Yield {
    /// Tokens for the time.
    pub(crate) fn rate(self, cost: LinearCost) -> f64 {
        let more_passes = f64::from(self.passes - 1) * cost.base;
        self.tokens / (cost.of(self.rows) + more_passes)
    }
}

/// A cost that grows by the same amount with each row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinearCost {
    base: f64,
    row: f64,
}

impl LinearCost {
    /// A processor that reads the weights once for all rows, and for which that is two thirds of a
    /// step with one row.
    pub(crate) const ASSUMED: Self = Self {
        base: 0.7,
        row: 0.3,
    };

    /// Microseconds of a step with these decodes, by the number of its rows. While the steps
    /// computed so far do not tell what a row costs, it costs as assumed: a row that was never
    /// tried would count as free.
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
            step * Self::ASSUMED.row / Self::ASSUMED.of(sequences)
        };
        Self {
            base: step - row * f64::from(sequences),
            row,
        }
    }

    /// The cost of a step with this many rows.
    pub(crate) fn of(self, rows: u32) -> f64 {
        self.base + self.row * f64::from(rows)
    }
}
