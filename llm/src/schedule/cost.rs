//! What a step costs on this machine with this model, learned from the steps it has computed.
//!
//! - **Decodes** cost a fixed part, a part for each token and a part for each cell they attend to.
//!   The three are fitted to recent steps without prompts by least squares, and are never negative.
//! - **A prompt token** has two prices, each an average of recent steps: one in steps of prompts
//!   alone, one beside decodes.
//! - **A decode beside prompts** makes a step longer than its prompts take alone, by an average of
//!   recent steps. Steps without prompts do not tell this, as they may have had far fewer decodes:
//!   where weights are read, eight take as long as four.
//!
//! A measurement counts at most as twice of what was expected: one step that was disturbed moves
//! little, and a machine that became slower is followed within a few dozen steps. Before the first
//! measurement everything is free.

use super::PROMPT_TILE;

/// How much of what is known about decodes is left after another step that has some.
const MEMORY: f64 = 0.9;
/// How far an average moves towards a new measurement.
const GAIN: f64 = 0.25;
/// Keeps the fit defined where all steps look the same.
const RIDGE: f64 = 1e-6;
/// A usual step's numbers, so that the fit sees numbers near one.
const DECODE_TOKENS: f64 = 16.0;
const ATTENDED_CELLS: f64 = 16_384.0;
/// How much the numbers of tokens of recent steps must differ, as a standard deviation, to tell the
/// price of a token: one step in some hundred with a few more.
const MIN_DEVIATION: f64 = 0.25;
/// Times are microseconds between nothing and a day.
const LONGEST: f64 = 86.4e9;

/// What a step computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepSize {
    /// Tokens of decodes, drafts included.
    pub(crate) decode_tokens: u32,
    /// Cells that those tokens attend to, added up.
    pub(crate) attended_cells: u64,
    /// Tokens of prompts, and of sequences that are computed again.
    pub(crate) prompt_tokens: u32,
}

impl StepSize {
    /// The numbers that a fit multiplies with its coefficients, all of a similar size.
    fn decode_features(&self) -> [f64; 3] {
        [
            1.0,
            f64::from(self.decode_tokens) / DECODE_TOKENS,
            self.attended_cells as f64 / ATTENDED_CELLS,
        ]
    }
}

/// Predicts the time of a step.
#[derive(Clone, Debug, Default)]
pub(crate) struct CostModel {
    decodes: Fit,
    /// A prompt token in steps without decodes.
    alone: Average,
    /// A prompt token in steps with decodes, apart from what the decodes take.
    beside_decodes: Average,
    /// A decode in steps with prompts, apart from what the prompts take alone.
    beside_prompts: Average,
}

impl CostModel {
    /// Takes in a step that was computed in so many microseconds.
    pub(crate) fn observe(&mut self, size: &StepSize, micros: f64) {
        if !micros.is_finite() || size.decode_tokens + size.prompt_tokens == 0 {
            return;
        }
        let micros = micros.clamp(0.0, LONGEST);
        if size.prompt_tokens == 0 {
            self.decodes.observe(&size.decode_features(), micros);
        } else if size.decode_tokens == 0 {
            // Part of a tile takes as long as all of it, which says nothing of longer prompts.
            if size.prompt_tokens >= PROMPT_TILE || !self.alone.is_known() {
                self.alone.observe(micros, size.prompt_tokens);
            }
        } else {
            if self.alone.is_known() {
                let longer = micros - self.alone.mean() * f64::from(size.prompt_tokens);
                self.beside_prompts.observe(longer, size.decode_tokens);
            }
            let longer = micros - self.decode_micros(size);
            self.beside_decodes.observe(longer, size.prompt_tokens);
        }
    }

    /// Microseconds of the decodes of a step; zero if it has none.
    pub(crate) fn decode_micros(&self, size: &StepSize) -> f64 {
        if size.decode_tokens == 0 {
            return 0.0;
        }
        self.decodes.predict(&size.decode_features())
    }

    /// Whether recent steps had different numbers of decode tokens. While all are alike, nothing is
    /// known of the price of one more.
    pub(crate) fn knows_decode_tokens(&self) -> bool {
        self.decodes.deviation(1) * DECODE_TOKENS > MIN_DEVIATION
    }

    /// Microseconds of one more token of a decode, apart from the cells it attends to.
    pub(crate) fn decode_token_micros(&self) -> f64 {
        self.decodes.coefficients[1] / DECODE_TOKENS
    }

    /// Microseconds by which a decode makes a step longer that computes prompts.
    pub(crate) fn beside_prompts_micros(&self) -> f64 {
        self.beside_prompts.mean()
    }

    /// Microseconds of a prompt token beside decodes.
    pub(crate) fn beside_decodes_micros(&self) -> f64 {
        if self.beside_decodes.is_known() {
            self.beside_decodes.mean()
        } else {
            self.alone.mean()
        }
    }

    /// Microseconds of a prompt token where it is cheaper, alone or beside decodes.
    pub(crate) fn token_micros(&self) -> f64 {
        let beside = self.beside_decodes_micros();
        if self.alone.is_known() {
            beside.min(self.alone.mean())
        } else {
            beside
        }
    }

    /// Microseconds of a whole step.
    pub(crate) fn micros(&self, size: &StepSize) -> f64 {
        let token = if size.decode_tokens == 0 && self.alone.is_known() {
            self.alone.mean()
        } else {
            self.beside_decodes_micros()
        };
        self.decode_micros(size) + f64::from(size.prompt_tokens) * token
    }
}

/// The time of one of the things that recent steps computed several of; unknown before the first of
/// these steps.
#[derive(Clone, Copy, Debug, Default)]
struct Average(Option<f64>);

impl Average {
    fn is_known(self) -> bool {
        self.0.is_some()
    }

    /// Zero while it is unknown.
    fn mean(self) -> f64 {
        self.0.unwrap_or(0.0)
    }

    fn observe(&mut self, micros: f64, count: u32) {
        let measured = micros.max(0.0) / f64::from(count);
        let moved = self.0.map_or(measured, |mean| {
            mean + GAIN * (measured.min(mean * 2.0) - mean)
        });
        // From zero it could never grow again.
        self.0 = Some(moved.max(1e-3));
    }
}

/// Non-negative least squares over recent measurements.
#[derive(Clone, Debug, Default)]
struct Fit {
    /// Sums of products of features, and of features with measurements. Older ones count less.
    products: [[f64; 3]; 3],
    targets: [f64; 3],
    coefficients: [f64; 3],
    measured: bool,
}

impl Fit {
    fn predict(&self, features: &[f64; 3]) -> f64 {
        dot(&self.coefficients, features)
    }

    fn observe(&mut self, features: &[f64; 3], micros: f64) {
        let expected = self.predict(features);
        let micros = if self.measured {
            micros.clamp(expected / 2.0, (expected * 2.0).max(1.0))
        } else {
            micros
        };
        self.measured = true;
        // Relative errors count, so that long steps do not drown short ones.
        let weight = 1.0 / (micros * micros).max(1.0);
        for (row, feature) in features.iter().enumerate() {
            for (sum, other) in self.products[row].iter_mut().zip(features) {
                *sum = *sum * MEMORY + weight * feature * other;
            }
            self.targets[row] = self.targets[row] * MEMORY + weight * feature * micros;
        }
        self.solve();
    }

    /// The standard deviation of a feature over recent measurements.
    fn deviation(&self, feature: usize) -> f64 {
        let weights = self.products[0][0];
        if weights <= 0.0 {
            return 0.0;
        }
        let mean = self.products[0][feature] / weights;
        let variance = self.products[feature][feature] / weights - mean * mean;
        variance.max(0.0).sqrt()
    }

    /// Goes to the best value of one coefficient after the other, each at least zero. What was best
    /// before is nearly best now.
    fn solve(&mut self) {
        let ridge = RIDGE * (0..3).map(|row| self.products[row][row]).sum::<f64>();
        for _ in 0..16 {
            for row in 0..3 {
                let others = dot(&self.products[row], &self.coefficients)
                    - self.products[row][row] * self.coefficients[row];
                // The ridge pulls towards the last value, not to zero.
                let best = (self.targets[row] - others + ridge * self.coefficients[row])
                    / (self.products[row][row] + ridge);
                if best.is_finite() {
                    self.coefficients[row] = best.clamp(0.0, LONGEST);
                }
            }
        }
    }
}

fn dot(left: &[f64; 3], right: &[f64; 3]) -> f64 {
    left.iter().zip(right).map(|(a, b)| a * b).sum()
}
