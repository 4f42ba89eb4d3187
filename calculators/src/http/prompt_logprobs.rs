//! The `prompt_logprobs` of answers in vLLM's form. The first token of a prompt has null. Each
//! other one has the likeliest tokens at its place and itself, by their ids.

use serde::{Serialize, Serializer};

use super::logprobs::finite;
use crate::payload::TextLogprob;

/// Log probabilities of the tokens of a prompt, with those of this many likeliest ones at each
/// place.
pub(super) struct PromptLogprobs<'a>(pub(super) &'a [TextLogprob], pub(super) u8);

impl Serialize for PromptLogprobs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let most = usize::from(self.1);
        serializer.collect_seq(self.0.iter().map(|token| PromptPlace::new(token, most)))
    }
}

/// The tokens at one place of a prompt.
struct PromptPlace<'a>(Vec<(i32, Likely<'a>)>);

#[derive(Serialize)]
struct Likely<'a> {
    logprob: f32,
    rank: u32,
    decoded_token: std::borrow::Cow<'a, str>,
}

impl<'a> PromptPlace<'a> {
    /// Returns the likeliest tokens and the token itself; `None` for a token without a probability.
    fn new(token: &'a TextLogprob, most: usize) -> Option<Self> {
        let likely = |bytes: &'a [u8], logprob, rank| Likely {
            logprob: finite(logprob),
            rank,
            decoded_token: String::from_utf8_lossy(bytes),
        };
        let own = likely(&token.bytes, token.logprob?, token.rank.unwrap_or(0));
        let top = token.top.iter().take(most).zip(1..);
        let others = top.filter(|(other, _)| other.token != token.token);
        let others = others.map(|(other, rank)| {
            let likely = likely(&other.bytes, other.logprob, rank);
            (other.token, likely)
        });
        Some(Self(
            [(token.token, own)].into_iter().chain(others).collect(),
        ))
    }
}

impl Serialize for PromptPlace<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(token, likely)| (token, likely)))
    }
}
