//! Tokens that can be drawn and their weights: `top_k`, `top_p` and `min_p` applied to a row.
//!
//! If few tokens remain, they are [`Candidate`]s, found by skipping low logits. If many remain,
//! every token has a weight, and dropped tokens have weight 0. No path sorts more than [`FEW`]
//! tokens, or one bucket of a histogram. Equal logits rank by token, lower first, so that every
//! result is determined by the row.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use super::row;
use crate::protocol::Token;

/// Maximum number of candidates that are gathered and sorted.
const FEW: usize = 1024;
/// Distance from the highest logit, in nats, within which candidates of `top_p` are searched. If
/// the set contains a token beyond it, the set is large.
const NEAR: f32 = 8.0;
/// Histogram of probability mass by distance from the highest logit: buckets per nat, and their
/// number. The last one also has everything beyond 32 nats (a share below 1e-13).
const BUCKETS_PER_NAT: f32 = 32.0;
const BUCKETS: usize = 1024;

/// Limits beyond which tokens are dropped.
#[derive(Clone, Copy, Debug)]
pub(super) struct TruncationLimits {
    /// Number of tokens to keep; `None` keeps all.
    pub(super) top_k: Option<usize>,
    /// Limits as in the parameters of the same names.
    pub(super) top_p: f32,
    pub(super) min_p: f32,
}

impl Default for TruncationLimits {
    fn default() -> Self {
        Self {
            top_k: None,
            top_p: 1.0,
            min_p: 0.0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) logit: f32,
    pub(super) token: Token,
}

impl Candidate {
    fn new(index: usize, logit: f32) -> Self {
        let token = index as Token;
        Self { logit, token }
    }

    /// Orders more likely tokens first, and equal ones by token.
    fn rank(self, other: Self) -> Ordering {
        other
            .logit
            .total_cmp(&self.logit)
            .then(self.token.cmp(&other.token))
    }
}

/// Tokens that can be drawn. The memory is reused from row to row.
#[derive(Debug, Default)]
pub(super) struct EligibleTokens {
    /// One weight per token of the vocabulary, or per candidate if `few`.
    pub(super) weights: Vec<f32>,
    pub(super) candidates: Vec<Candidate>,
    /// True if the weights belong to the candidates.
    few: bool,
    masses: Vec<f64>,
}

impl EligibleTokens {
    /// Returns the token of a weight.
    pub(super) fn token(&self, index: usize) -> Token {
        if self.few {
            self.candidates[index].token
        } else {
            index as Token
        }
    }

    /// Finds the tokens that can be drawn from a row. Its highest logit is finite. Logits are
    /// multiplied by `sharpness`.
    pub(super) fn find(
        &mut self,
        logits: &[f32],
        highest: f32,
        sharpness: f32,
        params: TruncationLimits,
    ) {
        let top_k = params.top_k.filter(|count| *count < logits.len());
        self.few = match top_k {
            Some(count) if count <= FEW => {
                most_likely(logits, count, &mut self.candidates);
                let weight =
                    |candidate: &Candidate| row::weight(candidate.logit, highest, sharpness);
                let total = self.candidates.iter().map(weight).map(f64::from).sum();
                self.keep_ranked(highest, sharpness, total, params);
                true
            }
            None if params.top_p < 1.0 => self.find_near(logits, highest, sharpness, params),
            None if params.min_p > 0.0 => {
                self.find_above(logits, highest, sharpness, params.min_p);
                true
            }
            _ => false,
        };
        if self.few {
            return;
        }
        row::weigh(logits, highest, sharpness, &mut self.weights);
        if let Some(count) = top_k {
            self.drop_behind(logits, count);
        }
        if params.top_p < 1.0 {
            self.drop_tail(logits, highest, sharpness, params.top_p);
        }
        if params.min_p > 0.0 {
            for weight in &mut self.weights {
                if *weight < params.min_p {
                    *weight = 0.0;
                }
            }
        }
    }

    /// Applies `min_p`, and `top_p` of `total`, to the ranked candidates, and weighs the remaining
    /// ones.
    fn keep_ranked(&mut self, highest: f32, sharpness: f32, total: f64, params: TruncationLimits) {
        self.weights.clear();
        let mut mass = 0.0;
        for candidate in &self.candidates {
            let weight = row::weight(candidate.logit, highest, sharpness);
            let enough = params.top_p < 1.0 && mass >= f64::from(params.top_p) * total;
            if !self.weights.is_empty() && (enough || weight < params.min_p) {
                break;
            }
            mass += f64::from(weight);
            self.weights.push(weight);
        }
        self.candidates.truncate(self.weights.len());
    }

    /// Finds the set of `top_p` among the tokens near the highest one. Returns false if it is
    /// larger.
    fn find_near(
        &mut self,
        logits: &[f32],
        highest: f32,
        sharpness: f32,
        params: TruncationLimits,
    ) -> bool {
        let candidates = &mut self.candidates;
        candidates.clear();
        row::at_least(logits, highest - NEAR / sharpness, |index, logit, _| {
            candidates.push(Candidate::new(index, logit));
            if candidates.len() > FEW {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        if candidates.len() > FEW {
            return false;
        }
        let total = row::total_weight(logits, highest, sharpness);
        let weight = |candidate: &Candidate| row::weight(candidate.logit, highest, sharpness);
        let near: f64 = candidates.iter().map(weight).map(f64::from).sum();
        if near < f64::from(params.top_p) * total {
            return false;
        }
        candidates.sort_unstable_by(|left, right| left.rank(*right));
        self.keep_ranked(highest, sharpness, total, params);
        // Sorted by token, as where every token has a weight: a seed then draws the same token from
        // both forms.
        self.candidates
            .sort_unstable_by_key(|candidate| candidate.token);
        self.weights.clear();
        self.weights.extend(self.candidates.iter().map(weight));
        true
    }

    /// Finds the tokens with at least this weight.
    fn find_above(&mut self, logits: &[f32], highest: f32, sharpness: f32, least: f32) {
        let Self {
            weights,
            candidates,
            ..
        } = self;
        weights.clear();
        candidates.clear();
        // A little lower than the weight requires, because the weight decides.
        let threshold = highest + (least.ln() - 0.01) / sharpness;
        row::at_least(logits, threshold, |index, logit, _| {
            let weight = row::weight(logit, highest, sharpness);
            if weight >= least {
                weights.push(weight);
                candidates.push(Candidate::new(index, logit));
            }
            ControlFlow::Continue(())
        });
    }

    /// Sets the weights of all but the `count` most likely tokens to 0.
    fn drop_behind(&mut self, logits: &[f32], count: usize) {
        let all = logits.iter().copied().enumerate();
        self.candidates.clear();
        self.candidates
            .extend(all.map(|(index, logit)| Candidate::new(index, logit)));
        let (_, _, behind) = self
            .candidates
            .select_nth_unstable_by(count - 1, |left, right| left.rank(*right));
        for candidate in behind {
            self.weights[candidate.token as usize] = 0.0;
        }
    }

    /// Sets the weights of tokens behind the smallest set of most likely ones with a share of
    /// `top_p` to 0. A histogram of the mass finds the bucket in which the set ends; only that one
    /// is sorted.
    fn drop_tail(&mut self, logits: &[f32], highest: f32, sharpness: f32, top_p: f32) {
        let Self {
            weights,
            candidates,
            masses,
            ..
        } = self;
        let bucket = |logit: f32| {
            (((highest - logit) * sharpness * BUCKETS_PER_NAT) as usize).min(BUCKETS - 1)
        };
        masses.clear();
        masses.resize(BUCKETS, 0.0);
        for (logit, weight) in logits.iter().zip(&*weights) {
            masses[bucket(*logit)] += f64::from(*weight);
        }
        let target = f64::from(top_p) * masses.iter().sum::<f64>();
        let mut mass = 0.0;
        let mut last = 0;
        while last < BUCKETS - 1 && mass + masses[last] < target {
            mass += masses[last];
            last += 1;
        }
        candidates.clear();
        for ((index, logit), weight) in logits.iter().enumerate().zip(weights.iter_mut()) {
            match bucket(*logit).cmp(&last) {
                Ordering::Less => {}
                Ordering::Equal if *weight > 0.0 => candidates.push(Candidate::new(index, *logit)),
                _ => *weight = 0.0,
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
}

/// Fills `candidates` with the `count` highest-ranked tokens, in order.
pub(super) fn most_likely(logits: &[f32], count: usize, candidates: &mut Vec<Candidate>) {
    candidates.clear();
    if count == 0 {
        return;
    }
    let room = (4 * count).max(64);
    let keep_best = |candidates: &mut Vec<Candidate>| {
        if candidates.len() > count {
            candidates.select_nth_unstable_by(count - 1, |left, right| left.rank(*right));
            candidates.truncate(count);
        }
    };
    row::at_least(logits, f32::MIN, |index, logit, threshold| {
        candidates.push(Candidate::new(index, logit));
        if candidates.len() == room {
            keep_best(candidates);
            // A later token with the same logit as the last candidate ranks behind it.
            *threshold = candidates[count - 1].logit.next_up();
        }
        ControlFlow::Continue(())
    });
    keep_best(candidates);
    candidates.sort_unstable_by(|left, right| left.rank(*right));
}
