//! Mirostat: selects the tokens that can be drawn, so that the surprise stays near a target.

use super::row;
use super::truncation::{self, Candidate, EligibleTokens, TruncationLimits};
use crate::protocol::{MirostatParams, MirostatVersion};

/// Number of most likely tokens that version one fits a power law to.
const FITTED: usize = 100;

/// State of the control loop of a sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mirostat {
    params: MirostatParams,
    /// Current upper bound of the surprise, in bits.
    bound: f32,
}

impl Mirostat {
    pub(super) fn new(params: MirostatParams) -> Self {
        Self {
            params,
            bound: 2.0 * params.tau,
        }
    }

    /// Finds the tokens that can be drawn.
    pub(super) fn find(
        &self,
        logits: &[f32],
        highest: f32,
        sharpness: f32,
        kept: &mut EligibleTokens,
        likeliest: &mut Vec<Candidate>,
    ) {
        let mut cuts = TruncationLimits::default();
        match self.params.version {
            MirostatVersion::One => {
                truncation::most_likely(logits, FITTED, likeliest);
                let count = self.count(likeliest, sharpness, logits.len());
                cuts.top_k = Some(count);
            }
            MirostatVersion::Two => {
                let total = row::total_weight(logits, highest, sharpness);
                let least = (total * f64::from(-self.bound).exp2()) as f32;
                // The likeliest token has a weight of 1 and always stays.
                cuts.min_p = least.clamp(f32::MIN_POSITIVE, 1.0);
            }
        }
        kept.find(logits, highest, sharpness, cuts);
    }

    /// Estimates how many of the most likely tokens can be drawn. Assumes that all probabilities
    /// follow the power law of the `likeliest` ones.
    fn count(&self, likeliest: &[Candidate], sharpness: f32, n_vocab: usize) -> usize {
        let (mut products, mut squares) = (0.0, 0.0);
        for (rank, pair) in likeliest.windows(2).enumerate() {
            let step = ((rank + 2) as f32 / (rank + 1) as f32).ln();
            products += step * (pair[0].logit - pair[1].logit) * sharpness;
            squares += step * step;
        }
        let slope = products / squares;
        let excess = slope - 1.0;
        let scale = excess * self.bound.exp2() / (1.0 - (n_vocab as f32).powf(-excess));
        // If the fit has no result, one token remains.
        (scale.powf(1.0 / slope) as usize).max(1)
    }

    /// Adjusts the bound after a draw with this probability.
    pub(super) fn observe(&mut self, probability: f64) {
        let surprise = -probability.log2() as f32;
        self.bound -= self.params.eta * (surprise - self.params.tau);
    }
}
