//! How much to draft: as many rows as give a step the most tokens for its time.

use crate::schedule::cost::{CostModel, StepSize};

/// How many of the drafted tokens are worth computing in a step that decodes `sequences` sequences
/// anyway. `chances` are the probabilities that the drafts are accepted, in falling order; `cost`
/// is what a step of that many rows costs, in any unit.
///
/// A step yields one token for each sequence and one for each accepted draft, so the best count is
/// the one with the most tokens per cost; of equals the lowest.
pub(crate) fn worthwhile(chances: &[f32], sequences: u32, cost: impl Fn(u32) -> f64) -> usize {
    let mut tokens = f64::from(sequences);
    let mut best = 0;
    let mut best_rate = tokens / cost(sequences);
    for (count, chance) in (1..).zip(chances) {
        tokens += f64::from(*chance);
        let rate = tokens / cost(sequences + count);
        if rate > best_rate {
            best = count as usize;
            best_rate = rate;
        }
    }
    best
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

    /// The cost of one more row.
    pub(crate) fn row(self) -> f64 {
        self.row
    }

    /// The cost of a step with this many rows.
    pub(crate) fn of(self, rows: u32) -> f64 {
        self.base + self.row * f64::from(rows)
    }
}
