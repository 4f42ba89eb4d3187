//! Chooses a token from a row of logits.
//!
//! The order of the steps is that of [`SamplingParams`]. No step sorts the whole vocabulary: `row`
//! contains the passes over it, `kept` finds the tokens that can be drawn.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::vocab::Vocab;
use crate::protocol::{SamplingParams, Token, TokenLogprob};

mod bad_words;
mod dry;
mod logprobs;
mod mirostat;
mod row;
mod truncation;
mod typical_xtc;

pub use bad_words::BadWords;
use dry::Dry;
pub(crate) use logprobs::{LOGPROB_PASSES, log_probability, most_likely, rank};
use mirostat::Mirostat;
pub(crate) use row::is_set;
use truncation::{Candidate, EligibleTokens, TruncationLimits};

/// Memory for the sampling of a row, reused for later rows of all sequences.
#[derive(Debug, Default)]
pub struct Scratch {
    adjusted: Vec<f32>,
    kept: EligibleTokens,
    likeliest: Vec<Candidate>,
    sums: Vec<f64>,
}

impl Scratch {
    /// Returns the tokens that the last random choice was drawn from, with their probabilities.
    pub fn distribution(&self) -> Vec<(Token, f64)> {
        let total: f64 = self.sums.iter().sum();
        let weights = self.kept.weights.iter().copied().map(f64::from);
        let drawable = weights.enumerate().filter(|(_, weight)| *weight > 0.0);
        let chances = drawable.map(|(index, weight)| (self.kept.token(index), weight / total));
        chances.collect()
    }
}

/// A chosen token, with its log probability if the sampler reports it.
#[derive(Clone, Debug, PartialEq)]
pub struct SampledToken {
    /// The token that was chosen.
    pub token: Token,
    /// Its log probability, if requested.
    pub logprob: Option<TokenLogprob>,
}

/// Sampling state of one sequence: parameters, generated tokens, and the random stream.
#[derive(Clone, Debug)]
pub struct Sampler {
    params: SamplingParams,
    random: ChaCha8Rng,
    generated: FxHashMap<Token, u32>,
    in_prompt: FxHashSet<Token>,
    dry: Option<Box<Dry>>,
    mirostat: Option<Mirostat>,
}

impl Sampler {
    /// Creates the sampler of a sequence with this prompt. `dry` needs
    /// [`with_vocab`](Self::with_vocab).
    pub fn new(params: SamplingParams, prompt: &[Token]) -> Self {
        let seed = params
            .seed
            .unwrap_or_else(|| RandomState::new().build_hasher().finish());
        let repeats_cost = is_not(params.repetition_penalty, 1.0);
        let counted = if repeats_cost { prompt } else { &[] };
        Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            generated: FxHashMap::default(),
            in_prompt: counted.iter().copied().collect(),
            dry: None,
            mirostat: params.mirostat.map(Mirostat::new),
            params,
        }
    }

    /// Adds the search for repetitions, if the parameters ask for it. The vocabulary is needed to
    /// find breakers.
    #[must_use]
    pub fn with_vocab(mut self, prompt: &[Token], vocab: &Arc<dyn Vocab>) -> Self {
        let dry = self.params.dry.clone();
        self.dry = dry.map(|params| Box::new(Dry::new(params, Arc::clone(vocab), prompt)));
        self
    }

    /// Records a token that became part of the sequence.
    pub fn accept(&mut self, token: Token) {
        if self.penalizes() {
            *self.generated.entry(token).or_default() += 1;
        }
        if let Some(dry) = &mut self.dry {
            dry.accept(token);
        }
    }

    /// Chooses the next token from those whose bits are set in `allowed`: 32 tokens per word, the
    /// lowest bit first; `None` allows all. `banned` tokens are never chosen. Log probabilities are
    /// those of the whole row. `None` if no token has a finite logit.
    pub fn sample(
        &mut self,
        logits: &[f32],
        allowed: Option<&[u32]>,
        banned: &[Token],
        scratch: &mut Scratch,
    ) -> Option<SampledToken> {
        let mut adjusted = std::mem::take(&mut scratch.adjusted);
        let row = self.adjusted(logits, allowed, banned, &mut adjusted);
        let token = self.choose(row, scratch);
        scratch.adjusted = adjusted;
        Some(self.forced(logits, token?, scratch))
    }

    /// Returns this token, with its log probability if requested.
    pub(crate) fn forced(
        &self,
        logits: &[f32],
        token: Token,
        scratch: &mut Scratch,
    ) -> SampledToken {
        let logprob = self
            .params
            .logprobs
            .map(|top| log_probability(logits, token, usize::from(top), scratch));
        SampledToken { token, logprob }
    }

    /// Returns true if the request lists the tokens that may be chosen.
    pub(crate) fn is_restricted(&self) -> bool {
        self.params.allowed_token_ids.is_some()
    }

    /// Approximate number of looks at each logit for a sample.
    pub(crate) fn passes(&self) -> usize {
        let choosing = if self.is_greedy() { 1 } else { 4 };
        choosing + LOGPROB_PASSES * usize::from(self.params.logprobs.is_some())
    }

    fn is_greedy(&self) -> bool {
        self.params.temperature == 0.0
    }

    /// Returns the logits after biases, penalties, bans and `top_n_sigma`. They are in `memory` if
    /// any of these changes a logit.
    fn adjusted<'a>(
        &self,
        logits: &'a [f32],
        allowed: Option<&[u32]>,
        banned: &[Token],
        memory: &'a mut Vec<f32>,
    ) -> &'a [f32] {
        let changes = !banned.is_empty()
            || !self.params.logit_bias.is_empty()
            || self.penalizes()
            || self.dry.is_some()
            || self.cuts_by_sigma();
        memory.clear();
        match (&self.params.allowed_token_ids, allowed) {
            (Some(tokens), bits) => row::keep_tokens(logits, tokens, bits, memory),
            (None, Some(bits)) => row::keep(logits, bits, memory),
            (None, None) if changes => memory.extend_from_slice(logits),
            (None, None) => return logits,
        }
        self.adjust(memory, banned);
        if self.cuts_by_sigma() {
            row::drop_below_sigma(memory, self.params.top_n_sigma);
        }
        memory
    }

    /// Returns true if `top_n_sigma` drops tokens. The most likely one is never dropped.
    fn cuts_by_sigma(&self) -> bool {
        self.params.top_n_sigma > 0.0 && self.mirostat.is_none() && !self.is_greedy()
    }

    fn penalizes(&self) -> bool {
        is_not(self.params.presence_penalty, 0.0)
            || is_not(self.params.frequency_penalty, 0.0)
            || is_not(self.params.repetition_penalty, 1.0)
    }

    fn adjust(&self, row: &mut [f32], banned: &[Token]) {
        for (token, bias) in self.params.logit_bias.iter() {
            row[*token as usize] += bias;
        }
        let repetition = self.params.repetition_penalty;
        if is_not(repetition, 1.0) {
            let only_in_prompt = self
                .in_prompt
                .iter()
                .filter(|token| !self.generated.contains_key(token));
            for token in self.generated.keys().chain(only_in_prompt) {
                let logit = &mut row[*token as usize];
                *logit = if *logit > 0.0 {
                    *logit / repetition
                } else {
                    *logit * repetition
                };
            }
        }
        for (token, count) in &self.generated {
            row[*token as usize] -=
                self.params.presence_penalty + self.params.frequency_penalty * *count as f32;
        }
        if let Some(dry) = &self.dry {
            dry.penalize(row);
        }
        for token in banned {
            row[*token as usize] = f32::NEG_INFINITY;
        }
    }

    fn choose(&mut self, logits: &[f32], scratch: &mut Scratch) -> Option<Token> {
        if self.is_greedy() {
            return row::argmax(logits).map(|index| index as Token);
        }
        let highest = row::highest(logits);
        if !highest.is_finite() {
            return None;
        }
        let chance = if self.params.xtc_probability > 0.0 {
            uniform(&mut self.random)
        } else {
            1.0
        };
        self.narrow(logits, highest, chance, scratch);
        let Scratch { kept, sums, .. } = scratch;
        let index = draw(&kept.weights, sums, &mut self.random);
        if let Some(mirostat) = &mut self.mirostat {
            let total: f64 = sums.iter().sum();
            mirostat.observe(f64::from(kept.weights[index]) / total);
        }
        Some(kept.token(index))
    }

    /// Finds the tokens that can be drawn. XTC is applied if `chance`, a number from [0, 1), is
    /// below its probability.
    fn narrow(&self, logits: &[f32], highest: f32, chance: f64, scratch: &mut Scratch) {
        let Scratch {
            kept, likeliest, ..
        } = scratch;
        let params = &self.params;
        let sharpness = (1.0 / self.temperature(logits, highest)).min(f32::MAX);
        if let Some(mirostat) = &self.mirostat {
            mirostat.find(logits, highest, sharpness, kept, likeliest);
            return;
        }
        let cuts = TruncationLimits {
            top_k: usize::try_from(params.top_k)
                .ok()
                .filter(|count| *count > 0),
            top_p: params.top_p,
            min_p: params.min_p,
        };
        kept.find(logits, highest, sharpness, cuts);
        if params.typical_p < 1.0 {
            typical_xtc::keep_typical(&mut kept.weights, params.typical_p);
        }
        if chance < f64::from(params.xtc_probability) {
            typical_xtc::drop_top(&mut kept.weights, params.xtc_threshold);
        }
    }

    /// Returns the temperature of a row. With `dynatemp_range`, it is higher the less sure the
    /// model is.
    fn temperature(&self, logits: &[f32], highest: f32) -> f32 {
        let (temperature, range) = (self.params.temperature, self.params.dynatemp_range);
        if range <= 0.0 || logits.len() < 2 {
            return temperature;
        }
        let total = row::total_weight(logits, highest, 1.0);
        let weighted_distance = |logit: &f32| {
            let weight = f64::from(row::weight(*logit, highest, 1.0));
            (weight > 0.0).then(|| weight * f64::from(highest - logit))
        };
        let distance: f64 = logits.iter().filter_map(weighted_distance).sum();
        let entropy = total.ln() + distance / total;
        let share = (entropy / (logits.len() as f64).ln()) as f32;
        let lowest = (temperature - range).max(0.0);
        lowest + (temperature + range - lowest) * share.powf(self.params.dynatemp_exponent)
    }
}

/// Returns true if an option differs from the value that turns it off. These values are exact in
/// `f32`.
#[expect(
    clippy::float_cmp,
    reason = "compares with the exact value that means off"
)]
fn is_not(value: f32, off: f32) -> bool {
    value != off
}

/// Returns a random number from [0, 1).
fn uniform(random: &mut ChaCha8Rng) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Draws an index with a probability proportional to its weight. At least one weight is positive.
fn draw(weights: &[f32], sums: &mut Vec<f64>, random: &mut ChaCha8Rng) -> usize {
    let total = row::sum_runs(weights, sums);
    let mut rest = uniform(random) * total;
    for (number, (run, sum)) in weights.chunks(row::RUN).zip(&*sums).enumerate() {
        if rest >= *sum {
            rest -= *sum;
            continue;
        }
        for (index, weight) in run.iter().enumerate() {
            let weight = f64::from(*weight);
            if rest < weight {
                return number * row::RUN + index;
            }
            rest -= weight;
        }
    }
    // Rounding left a remainder after the last weight.
    weights
        .iter()
        .rposition(|weight| *weight > 0.0)
        .unwrap_or(0)
}
