//! What a step costs on this machine with this model, learned from the steps it has computed.
//!
//! The time of a step is the time of its decodes plus the time of its prompt tokens.
//!
//! - **Decodes** cost a fixed part, a part for each token and a part for each cell they attend to. The three are fitted to recent
//!   steps without prompts, by least squares, and are never negative.
//! - **Prompt tokens** beside decodes have a price that depends on how many there are in the step: kernels work in tiles, and 60
//!   tokens can cost three times what 70 do. Each class of sizes has a price of its own. A class that was not tried yet counts as
//!   its nearest neighbor, the first one as prompts alone. A price that is not used is forgotten little by little.
//! - **Prompt tokens alone** have other prices, by the same classes: one token takes as long as the shortest step.
//! - **A decode beside prompts** makes a step longer than its prompts take alone, by an average of recent steps. This is not
//!   concluded from steps without prompts, as they may have had far fewer decodes: where weights are read, eight take as long as four.
//!
//! A measurement counts at most as twice, and at least as half of what was expected: one step that was disturbed moves little, and
//! a machine that became slower is followed within a few dozen steps. Before the first measurement everything is free.

use super::PROMPT_TILE;

/// Classes of sizes: of 1 or 2 prompt tokens, 3 or 4, 5 to 8, and so on, to more than any batch has.
const CLASSES: usize = 24;
/// How much of what is known about decodes is left after another step that has some.
const MEMORY: f64 = 0.9;
/// How far a price moves towards a new measurement.
const GAIN: f64 = 0.25;
/// How much of the distance to the cheapest price is left, after another step, of a price that is not used.
const PATIENCE: f64 = 0.998;
/// Keeps the fit defined where all steps look the same.
const RIDGE: f64 = 1e-6;
/// A usual step's numbers, so that the fit sees numbers near one.
const DECODE_TOKENS: f64 = 16.0;
const ATTENDED_CELLS: f64 = 16_384.0;
/// How much the numbers of tokens of recent steps must differ, as a standard deviation, to tell the price of a token: one step in
/// some hundred with a few more.
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
    /// Microseconds of a prompt token beside decodes, by class.
    prices: [Option<f64>; CLASSES],
    /// The same in steps without decodes.
    alone: [Option<f64>; CLASSES],
    /// Microseconds by which recent steps took longer than their prompts alone, and their decodes. Older ones count less.
    beside_prompts: (f64, f64),
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
            return;
        }
        let class = class_of(size.prompt_tokens);
        let measured = (micros - self.decode_micros(size)).max(0.0) / f64::from(size.prompt_tokens);
        if size.decode_tokens == 0 {
            self.alone[class] = Some(moved(self.alone[class], measured));
            return;
        }
        if let Some(alone) = nearest(&self.alone, class) {
            let longer = (micros - alone * f64::from(size.prompt_tokens)).max(0.0);
            let (times, decodes) = self.beside_prompts;
            self.beside_prompts = (
                times * MEMORY + longer,
                decodes * MEMORY + f64::from(size.decode_tokens),
            );
        }
        let price = moved(self.prices[class], measured);
        let known = self.prices.iter().flatten().copied();
        let cheapest = known.reduce(f64::min).unwrap_or(price);
        for other in self.prices.iter_mut().flatten() {
            *other = cheapest + (*other - cheapest) * PATIENCE;
        }
        self.prices[class] = Some(price);
    }

    /// Microseconds of the decodes of a step; zero if it has none.
    pub(crate) fn decode_micros(&self, size: &StepSize) -> f64 {
        if size.decode_tokens == 0 {
            return 0.0;
        }
        self.decodes.predict(&size.decode_features())
    }

    /// Microseconds by which a decode makes a step longer that computes prompts.
    pub(crate) fn beside_prompts_micros(&self) -> f64 {
        let (times, decodes) = self.beside_prompts;
        times / decodes.max(1.0)
    }

    /// Whether recent steps had different numbers of decode tokens. While all are alike, nothing is known of the price of one more.
    pub(crate) fn knows_decode_tokens(&self) -> bool {
        self.decodes.deviation(1) * DECODE_TOKENS > MIN_DEVIATION
    }

    /// Microseconds of one more token of a decode, apart from the cells it attends to.
    pub(crate) fn decode_token_micros(&self) -> f64 {
        self.decodes.coefficients[1] / DECODE_TOKENS
    }

    /// Microseconds of a whole step.
    pub(crate) fn micros(&self, size: &StepSize) -> f64 {
        let class = class_of(size.prompt_tokens);
        let price = if size.decode_tokens == 0 {
            nearest(&self.alone, class).unwrap_or_else(|| self.token_micros())
        } else {
            self.price(class)
        };
        self.decode_micros(size) + f64::from(size.prompt_tokens) * price
    }

    /// Microseconds of a prompt token where it is cheapest, alone or beside decodes.
    pub(crate) fn token_micros(&self) -> f64 {
        let known = self.alone.iter().chain(&self.prices).flatten();
        known.copied().reduce(f64::min).unwrap_or(0.0)
    }

    fn price(&self, class: usize) -> f64 {
        let price = nearest(&self.prices, class).or_else(|| nearest(&self.alone, class));
        price.unwrap_or(0.0)
    }

    /// The most prompt tokens, up to `limit`, that are expected to take no longer than `micros`, with the price of each. It can be
    /// none.
    pub(crate) fn prompt_tokens_within(&self, micros: f64, limit: u32) -> (u32, f64) {
        Self::fits(micros, limit, |class| self.price(class))
            .next()
            .unwrap_or((0, f64::MAX))
    }

    /// The fewest prompt tokens of a class above that of `tokens`, up to `limit`, whose price is at most `price` and that take no
    /// longer than `micros`. A class that was not tried yet counts as cheap as prompts alone, so that it is tried.
    pub(crate) fn cheaper_prompt_tokens(
        &self,
        tokens: u32,
        price: f64,
        micros: f64,
        limit: u32,
    ) -> Option<u32> {
        let larger = |fitting: &u32| tokens == 0 || class_of(*fitting) > class_of(tokens);
        let cheaper = Self::fits(micros, limit, |class| {
            self.prices[class].unwrap_or_else(|| self.token_micros())
        })
        .filter(|(fitting, own)| larger(fitting) && *own <= price);
        cheaper
            .last()
            .map(|(fitting, _)| smallest_of(class_of(fitting)))
    }

    /// For each class, the larger ones first, the most of its tokens that fit at its price.
    fn fits(
        micros: f64,
        limit: u32,
        price: impl Fn(usize) -> f64,
    ) -> impl Iterator<Item = (u32, f64)> {
        let classes = if limit == 0 { 0 } else { class_of(limit) + 1 };
        (0..classes).rev().filter_map(move |class| {
            let price = price(class);
            let affordable = if price > 0.0 {
                micros / price
            } else {
                f64::MAX
            };
            let tokens = (affordable as u32).min(largest_of(class)).min(limit);
            (tokens >= smallest_of(class)).then_some((tokens, price))
        })
    }
}

/// A price after another measurement. It stays above zero, where it could never grow again.
fn moved(price: Option<f64>, measured: f64) -> f64 {
    let moved = match price {
        None => measured,
        Some(price) => price + GAIN * (measured.clamp(price / 2.0, price * 2.0) - price),
    };
    moved.max(1e-3)
}

/// The price of a class, or of the nearest one that is known.
fn nearest(prices: &[Option<f64>; CLASSES], class: usize) -> Option<f64> {
    let known = prices.iter().enumerate();
    known
        .filter_map(|(other, price)| Some((other.abs_diff(class), (*price)?)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, price)| price)
}

/// A power of two ends a class, so that the largest chunk of a class fills the kernels' tiles.
fn class_of(prompt_tokens: u32) -> usize {
    ((prompt_tokens.max(2) - 1).ilog2() as usize).min(CLASSES - 1)
}

/// The fewest tokens of a class, in full tiles where it has some.
fn smallest_of(class: usize) -> u32 {
    let least = if class == 0 { 1 } else { (1 << class) + 1 };
    if least > PROMPT_TILE {
        least.next_multiple_of(PROMPT_TILE)
    } else {
        least
    }
}

fn largest_of(class: usize) -> u32 {
    2 << class
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

    /// Goes to the best value of one coefficient after the other, each at least zero. What was best before is nearly best now.
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
