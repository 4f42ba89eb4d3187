//! Probabilities of the tokens of a row, before anything changes its logits.

use super::{Scratch, row, truncation};
use crate::protocol::{Token, TokenLogprob};

/// Approximate number of looks at each logit for a log probability.
pub(crate) const LOGPROB_PASSES: usize = 4;

/// Returns the most likely token of a row and its probability; `None` if no logit is finite.
pub(crate) fn most_likely(logits: &[f32]) -> Option<(Token, f32)> {
    let token = row::argmax(logits)?;
    let total = row::total_weight(logits, logits[token], 1.0);
    Some((token as Token, (1.0 / total) as f32))
}

/// Returns the natural log probability of `token` in the row, and of the `top` most likely tokens.
pub(crate) fn log_probability(
    logits: &[f32],
    token: Token,
    top: usize,
    scratch: &mut Scratch,
) -> TokenLogprob {
    let highest = row::highest(logits);
    let log_total = f64::from(highest) + row::total_weight(logits, highest, 1.0).ln();
    let logprob = |logit: f32| (f64::from(logit) - log_total) as f32;
    truncation::most_likely(logits, top, &mut scratch.likeliest);
    TokenLogprob {
        token,
        logprob: logprob(logits[token as usize]),
        rank: None,
        top: scratch
            .likeliest
            .iter()
            .map(|candidate| (candidate.token, logprob(candidate.logit)))
            .collect(),
    }
}

/// Number of tokens that are at least as likely as this one, itself included.
pub(crate) fn rank(logits: &[f32], token: Token) -> u32 {
    let logit = logits[token as usize];
    logits.iter().filter(|other| **other >= logit).count() as u32
}
