//! Chooses a token from a row of logits.
//!
//! The order of the steps is that of [`SamplingParams`]. No step sorts the whole vocabulary: the highest logit is a scan, `top_k`
//! keeps its candidates while scanning, and `top_p` finds where its set ends in a histogram of the probability mass and sorts only
//! the one bucket the end falls into. Equal logits rank by token id, lower first, so every result is determined by the row and
//! the seed.

use std::cmp::Ordering;
use std::hash::{BuildHasher, Hasher, RandomState};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::protocol::{SamplingParams, Token, TokenLogprob};

/// Histogram of probability mass by distance from the highest logit: buckets per nat, and their number. Everything beyond 32 nats
/// (a share below 1e-13) is in the last one.
const BUCKETS_PER_NAT: f32 = 32.0;
const BUCKETS: usize = 1024;
/// Weights are summed in runs of this many before the draw looks inside one.
const RUN: usize = 512;

/// Memory that samplers share: the sequences of an engine are sampled one after another.
#[derive(Debug, Default)]
pub struct Scratch {
    adjusted: Vec<f32>,
    weights: Vec<f32>,
    candidates: Vec<Candidate>,
    masses: Vec<f64>,
}

/// A chosen token, with its log probability if the sampler reports it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// The token.
    pub token: Token,
    /// Its log probability.
    pub logprob: Option<TokenLogprob>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Candidate {
    logit: f32,
    token: Token,
}

impl Candidate {
    /// Likelier first, then by token.
    fn rank(self, other: Self) -> Ordering {
        other
            .logit
            .total_cmp(&self.logit)
            .then(self.token.cmp(&other.token))
    }
}

/// The sampling state of one sequence: parameters, what was generated so far, and the random stream.
#[derive(Clone, Debug)]
pub struct Sampler {
    params: SamplingParams,
    random: ChaCha8Rng,
    generated: FxHashMap<Token, u32>,
    in_prompt: FxHashSet<Token>,
}

impl Sampler {
    /// A sampler for a sequence with this prompt.
    pub fn new(params: SamplingParams, prompt: &[Token]) -> Self {
        let seed = params
            .seed
            .unwrap_or_else(|| RandomState::new().build_hasher().finish());
        let repeats_cost = is_not(params.repetition_penalty, 1.0);
        Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            generated: FxHashMap::default(),
            in_prompt: if repeats_cost {
                prompt.iter().copied().collect()
            } else {
                FxHashSet::default()
            },
            params,
        }
    }

    /// Counts a token that became part of the sequence.
    pub fn accept(&mut self, token: Token) {
        if self.penalizes() {
            *self.generated.entry(token).or_default() += 1;
        }
    }

    /// Chooses the next token. `banned` tokens are never chosen. `None` if no token has a finite logit.
    pub fn sample(
        &mut self,
        logits: &[f32],
        banned: &[Token],
        scratch: &mut Scratch,
    ) -> Option<Sampled> {
        let changes_logits =
            !banned.is_empty() || !self.params.logit_bias.is_empty() || self.penalizes();
        let mut adjusted = std::mem::take(&mut scratch.adjusted);
        let row = if changes_logits {
            adjusted.clear();
            adjusted.extend_from_slice(logits);
            self.adjust(&mut adjusted, banned);
            &adjusted
        } else {
            logits
        };
        let token = self.choose(row, scratch);
        scratch.adjusted = adjusted;
        let token = token?;
        let logprob = self
            .params
            .logprobs
            .map(|top| log_probability(logits, token, usize::from(top), scratch));
        Some(Sampled { token, logprob })
    }

    fn penalizes(&self) -> bool {
        is_not(self.params.presence_penalty, 0.0)
            || is_not(self.params.frequency_penalty, 0.0)
            || is_not(self.params.repetition_penalty, 1.0)
    }

    fn adjust(&self, row: &mut [f32], banned: &[Token]) {
        for (token, bias) in &self.params.logit_bias {
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
        for token in banned {
            row[*token as usize] = f32::NEG_INFINITY;
        }
    }

    fn choose(&mut self, row: &[f32], scratch: &mut Scratch) -> Option<Token> {
        let highest = highest(row);
        if !highest.is_finite() {
            return None;
        }
        if self.params.temperature == 0.0 {
            return row
                .iter()
                .position(|logit| *logit >= highest)
                .map(|index| index as Token);
        }
        let sharpness = (1.0 / self.params.temperature).min(f32::MAX);
        let top_k = usize::try_from(self.params.top_k).unwrap_or(0);
        if top_k == 0 || top_k >= row.len() {
            weigh(row, highest, sharpness, &mut scratch.weights);
            self.cut(row, highest, sharpness, scratch);
            let index = draw(&scratch.weights, &mut self.random);
            return Some(index as Token);
        }
        most_likely(row, top_k, &mut scratch.candidates);
        scratch.weights.clear();
        scratch.weights.extend(
            scratch
                .candidates
                .iter()
                .map(|candidate| exp((candidate.logit - highest) * sharpness)),
        );
        let total: f64 = scratch.weights.iter().copied().map(f64::from).sum();
        let mut mass = 0.0;
        let mut kept = 0;
        for weight in &scratch.weights {
            if kept > 0
                && (mass >= f64::from(self.params.top_p) * total || *weight < self.params.min_p)
            {
                break;
            }
            mass += f64::from(*weight);
            kept += 1;
        }
        let index = draw(&scratch.weights[..kept], &mut self.random);
        Some(scratch.candidates[index].token)
    }

    /// Sets the weights to zero that `top_p` and `min_p` drop from the whole vocabulary. The highest one is 1 and stays.
    fn cut(&self, row: &[f32], highest: f32, sharpness: f32, scratch: &mut Scratch) {
        let Scratch {
            weights,
            candidates,
            masses,
            ..
        } = scratch;
        if self.params.top_p < 1.0 {
            let bucket = |logit: f32| {
                (((highest - logit) * sharpness * BUCKETS_PER_NAT) as usize).min(BUCKETS - 1)
            };
            masses.clear();
            masses.resize(BUCKETS, 0.0);
            for (logit, weight) in row.iter().zip(&*weights) {
                masses[bucket(*logit)] += f64::from(*weight);
            }
            let target = f64::from(self.params.top_p) * masses.iter().sum::<f64>();
            let mut mass = 0.0;
            let mut last = 0;
            while last < BUCKETS - 1 && mass + masses[last] < target {
                mass += masses[last];
                last += 1;
            }
            // `last` is the bucket the set ends in: rank its tokens and find where.
            candidates.clear();
            for (index, logit) in row.iter().enumerate() {
                match bucket(*logit).cmp(&last) {
                    Ordering::Less => {}
                    Ordering::Equal => candidates.push(Candidate {
                        logit: *logit,
                        token: index as Token,
                    }),
                    Ordering::Greater => weights[index] = 0.0,
                }
            }
            candidates.sort_unstable_by(|left, right| left.rank(*right));
            for (rank, candidate) in candidates.iter().enumerate() {
                let weight = &mut weights[candidate.token as usize];
                if mass >= target && !(last == 0 && rank == 0) {
                    *weight = 0.0;
                } else {
                    mass += f64::from(*weight);
                }
            }
        }
        if self.params.min_p > 0.0 {
            for weight in weights.iter_mut() {
                if *weight < self.params.min_p {
                    *weight = 0.0;
                }
            }
        }
    }
}

/// Whether an option was set to something else than the value that switches it off. These values are exact in `f32`.
#[expect(
    clippy::float_cmp,
    reason = "compares with the exact value that means off"
)]
fn is_not(value: f32, off: f32) -> bool {
    value != off
}

/// The highest logit; negative infinity if there is none.
fn highest(row: &[f32]) -> f32 {
    // Lanes let the compiler use vector instructions; NaN never compares higher.
    let mut lanes = [f32::NEG_INFINITY; 16];
    let (chunks, rest) = row.as_chunks::<16>();
    for chunk in chunks {
        for (lane, logit) in lanes.iter_mut().zip(chunk) {
            *lane = if *logit > *lane { *logit } else { *lane };
        }
    }
    rest.iter()
        .chain(&lanes)
        .fold(f32::NEG_INFINITY, |highest, logit| {
            if *logit > highest { *logit } else { highest }
        })
}

/// Fills `weights` with each logit's probability relative to that of the highest.
fn weigh(row: &[f32], highest: f32, sharpness: f32, weights: &mut Vec<f32>) {
    weights.clear();
    weights.extend(row.iter().map(|logit| exp((*logit - highest) * sharpness)));
}

/// `e^x` for `x <= 0` to about 1e-7, in a form that the compiler turns into vector instructions; 0 below -87 and for NaN.
fn exp(x: f32) -> f32 {
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let clamped = if x > -87.0 { x } else { -87.0 };
    let power = (clamped * std::f32::consts::LOG2_E).round_ties_even();
    let r = clamped - power * LN2_HIGH - power * LN2_LOW;
    let polynomial = 1.0
        + r * (1.0
            + r * (0.5
                + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0))))));
    let scale = f32::from_bits(((power as i32 + 127) << 23) as u32);
    if x > -87.0 { polynomial * scale } else { 0.0 }
}

/// Fills `candidates` with the `count` highest-ranked tokens, in order.
fn most_likely(row: &[f32], count: usize, candidates: &mut Vec<Candidate>) {
    candidates.clear();
    if count == 0 {
        return;
    }
    let room = (4 * count).max(64);
    let mut threshold = f32::NEG_INFINITY;
    let keep_best = |candidates: &mut Vec<Candidate>| {
        if candidates.len() > count {
            candidates.select_nth_unstable_by(count - 1, |left, right| left.rank(*right));
            candidates.truncate(count);
        }
    };
    for (index, logit) in row.iter().enumerate() {
        // A later token with the threshold's logit ranks behind the `count` that are kept.
        if *logit > threshold {
            candidates.push(Candidate {
                logit: *logit,
                token: index as Token,
            });
            if candidates.len() == room {
                keep_best(candidates);
                threshold = candidates[count - 1].logit;
            }
        }
    }
    keep_best(candidates);
    candidates.sort_unstable_by(|left, right| left.rank(*right));
}

/// Draws an index with a probability in proportion to its weight. At least one weight is positive.
fn draw(weights: &[f32], random: &mut ChaCha8Rng) -> usize {
    let sum = |run: &[f32]| run.iter().copied().map(f64::from).sum::<f64>();
    let total: f64 = weights.chunks(RUN).map(sum).sum();
    let uniform = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    let mut rest = uniform * total;
    for (number, run) in weights.chunks(RUN).enumerate() {
        let mass = sum(run);
        if rest >= mass {
            rest -= mass;
            continue;
        }
        for (index, weight) in run.iter().enumerate() {
            let weight = f64::from(*weight);
            if rest < weight {
                return number * RUN + index;
            }
            rest -= weight;
        }
    }
    // Rounding left a remainder behind the last weight.
    weights
        .iter()
        .rposition(|weight| *weight > 0.0)
        .unwrap_or(0)
}

/// The natural log probability of `token` under the row, and the `top` most likely tokens with theirs.
fn log_probability(row: &[f32], token: Token, top: usize, scratch: &mut Scratch) -> TokenLogprob {
    let highest = highest(row);
    weigh(row, highest, 1.0, &mut scratch.weights);
    let total: f64 = scratch.weights.iter().copied().map(f64::from).sum();
    let log_total = f64::from(highest) + total.ln();
    let logprob = |logit: f32| (f64::from(logit) - log_total) as f32;
    most_likely(row, top, &mut scratch.candidates);
    TokenLogprob {
        token,
        logprob: logprob(row[token as usize]),
        top: scratch
            .candidates
            .iter()
            .map(|candidate| (candidate.token, logprob(candidate.logit)))
            .collect(),
    }
}
