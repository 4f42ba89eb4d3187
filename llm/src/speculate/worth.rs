//! How much to draft: as many rows as give a step the most tokens for its time.

/// How many of the drafted tokens are worth computing in a step that decodes `sequences` sequences anyway. `chances` are the
/// probabilities that the drafts are accepted, in falling order; `cost` is what a step of that many rows costs, in any unit.
///
/// A step yields one token for each sequence and one for each accepted draft, so the best count is the one with the most tokens
/// per cost; of equals the lowest.
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

/// A cost that grows by the same amount with each row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinearCost {
    base: f64,
    row: f64,
}

impl LinearCost {
    /// A processor that reads the weights once for all rows, and for which that is two thirds of a step with one row.
    pub(crate) const ASSUMED: Self = Self {
        base: 0.7,
        row: 0.3,
    };

    /// The cost of a step with this many rows.
    pub(crate) fn of(self, rows: u32) -> f64 {
        self.base + self.row * f64::from(rows)
    }
}
