//! Model of the duration of steps on this machine with this model, trained on the steps it has
//! computed.
//!
//! - **Decodes** cost a fixed part, a part for each token and a part for each cell they attend to.
//!   The three are fitted to recent steps without prompts by least squares, and are never negative.
//! - **A prompt token** has two prices, each an average of recent steps: one in steps of prompts
//!   alone, one beside decodes.
//! - **A decode beside prompts** makes a step longer than its prompts take alone, by an average of
//!   recent steps. Steps without prompts do not show this, as they may have had far fewer decodes: if
//!   reading weights dominates, eight decodes take as long as four.
//!
//! A measurement counts as at most twice the expected time. So a single disturbed step changes
//! little, and the model follows a machine that became slower within a few dozen steps. Before the
//! first measurement everything is free.

use super::PROMPT_TILE;

/// Factor on the weight of earlier steps with decodes at each new one.
const MEMORY: f64 = 0.9;
/// Fraction by which an average moves towards a new measurement.
const GAIN: f64 = 0.25;
/// Regularization that keeps the fit defined if all steps look the same.
const RIDGE: f64 = 1e-6;
/// Typical numbers of a step. The fit divides by them, so that its inputs are near one.
const DECODE_TOKENS: f64 = 16.0;
const ATTENDED_CELLS: f64 = 16_384.0;
/// Minimum standard deviation of the token counts of recent steps for a known price of a token: one
/// step in some hundred with a few more.
const MIN_DEVIATION: f64 = 0.25;
/// Maximum time of a step in microseconds: a day.
const LONGEST: f64 = 86.4e9;

/// Amount of work in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepSize {
    /// Number of decoded tokens, drafts included.
    pub(crate) decode_tokens: u32,
    /// Sum of the cells that these tokens attend to.
    pub(crate) attended_cells: u64,
    /// Number of tokens of prompts, and of sequences that are computed again.
    pub(crate) prompt_tokens: u32,
}

impl StepSize {
    /// Returns the inputs of the fit, all of a similar size.
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
    /// Time of a prompt token in steps without decodes.
    alone: Average,
    /// Time of a prompt token in steps with decodes, without the time of the decodes.
    beside_decodes: Average,
    /// Time of a decode in steps with prompts, without the time of the prompts alone.
    beside_prompts: Average,
}

impl CostModel {
    /// Learns from a step that took this many microseconds.
    pub(crate) fn observe(&mut self, size: &StepSize, micros: f64) {
        if !micros.is_finite() || size.decode_tokens + size.prompt_tokens == 0 {
            return;
        }
        let micros = micros.clamp(0.0, LONGEST);
        if size.prompt_tokens == 0 {
            self.decodes.observe(&size.decode_features(), micros);
        } else if size.decode_tokens == 0 {
            // Part of a tile takes as long as a whole one, so it says nothing about longer prompts.
            if size.prompt_tokens >= PROMPT_TILE || self.alone.0.is_none() {
                self.alone.observe(micros, size.prompt_tokens);
            }
        } else {
            if let Some(alone) = self.alone.0 {
                let longer = micros - alone * f64::from(size.prompt_tokens);
                self.beside_prompts.observe(longer, size.decode_tokens);
            }
            let longer = micros - self.decode_micros(size);
            self.beside_decodes.observe(longer, size.prompt_tokens);
        }
    }

    /// Predicts the microseconds of a step's decodes; zero if it has none.
    pub(crate) fn decode_micros(&self, size: &StepSize) -> f64 {
        if size.decode_tokens == 0 {
            return 0.0;
        }
        self.decodes.predict(&size.decode_features())
    }

    /// Returns true if recent steps had different numbers of decode tokens. Otherwise the price of
    /// one more token is unknown.
    pub(crate) fn knows_decode_tokens(&self) -> bool {
        self.decodes.deviation(1) * DECODE_TOKENS > MIN_DEVIATION
    }

    /// Predicts the microseconds of one more decode token, without its attention to cells.
    pub(crate) fn decode_token_micros(&self) -> f64 {
        self.decodes.coefficients[1] / DECODE_TOKENS
    }

    /// Predicts the microseconds that a decode adds to a step with prompts.
    pub(crate) fn beside_prompts_micros(&self) -> f64 {
        self.beside_prompts.0.unwrap_or(0.0)
    }

    /// Predicts the microseconds of a prompt token in a step with decodes.
    pub(crate) fn beside_decodes_micros(&self) -> f64 {
        self.beside_decodes.0.or(self.alone.0).unwrap_or(0.0)
    }

    /// Predicts the microseconds of a prompt token in the cheaper kind of step.
    pub(crate) fn token_micros(&self) -> f64 {
        let beside = self.beside_decodes_micros();
        self.alone.0.map_or(beside, |alone| beside.min(alone))
    }

    /// Predicts the microseconds of a whole step.
    pub(crate) fn micros(&self, size: &StepSize) -> f64 {
        let alone = self.alone.0.filter(|_| size.decode_tokens == 0);
        let token = alone.unwrap_or_else(|| self.beside_decodes_micros());
        self.decode_micros(size) + f64::from(size.prompt_tokens) * token
    }
}

/// Average time per item in recent steps; unknown before the first step with such items.
#[derive(Clone, Copy, Debug, Default)]
struct Average(Option<f64>);

impl Average {
    fn observe(&mut self, micros: f64, count: u32) {
        let measured = micros.max(0.0) / f64::from(count);
        let moved = self.0.map_or(measured, |mean| {
            mean + GAIN * (measured.min(mean * 2.0) - mean)
        });
        // A value of zero could never grow again.
        self.0 = Some(moved.max(1e-3));
    }
}

/// Non-negative least squares over recent measurements.
#[derive(Clone, Debug, Default)]
struct Fit {
    /// Sums of products of inputs; the next field has products of inputs and measurements. Older
    /// ones count less.
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
        // Relative errors count, so that long steps do not outweigh short ones.
        let weight = 1.0 / (micros * micros).max(1.0);
        for (row, feature) in features.iter().enumerate() {
            for (sum, other) in self.products[row].iter_mut().zip(features) {
                *sum = *sum * MEMORY + weight * feature * other;
            }
            self.targets[row] = self.targets[row] * MEMORY + weight * feature * micros;
        }
        self.solve();
    }

    /// Returns the standard deviation of an input over recent measurements.
    fn deviation(&self, feature: usize) -> f64 {
        let weights = self.products[0][0];
        if weights <= 0.0 {
            return 0.0;
        }
        let mean = self.products[0][feature] / weights;
        let variance = self.products[feature][feature] / weights - mean * mean;
        variance.max(0.0).sqrt()
    }

    /// Improves one coefficient after the other, each at least zero. The last solution is nearly
    /// the best, so few rounds suffice.
    fn solve(&mut self) {
        let ridge = RIDGE * (0..3).map(|row| self.products[row][row]).sum::<f64>();
        for _ in 0..16 {
            for row in 0..3 {
                let others = dot(&self.products[row], &self.coefficients)
                    - self.products[row][row] * self.coefficients[row];
                // The ridge pulls towards the last value instead of zero.
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
