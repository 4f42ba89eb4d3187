//! Log probabilities in the answers of chats and completions.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::wire::number;
use crate::payload::{TextLogprob, Token};

/// Number that stands for a probability of zero, because JSON has no infinity.
const LOWEST: f32 = -9999.0;

/// The `logprobs` of a choice of a chat, in a whole answer or a chunk.
#[derive(Serialize)]
pub(super) struct ChatLogprobs<'a> {
    content: Vec<ChatToken<'a>>,
    refusal: (),
}

#[derive(Serialize)]
struct ChatToken<'a> {
    #[serde(flatten)]
    token: TopToken<'a>,
    top_logprobs: Vec<TopToken<'a>>,
}

#[derive(Serialize)]
struct TopToken<'a> {
    token: String,
    logprob: f32,
    bytes: &'a [u8],
}

impl<'a> ChatLogprobs<'a> {
    /// Creates the object for these tokens, without the token that ended the text.
    pub(super) fn new(tokens: &'a [TextLogprob], by_id: bool) -> Self {
        let named = |id, bytes: &'a [u8], logprob| TopToken {
            token: spelled(id, bytes, "", by_id),
            logprob: finite(logprob),
            bytes,
        };
        let content = tokens.iter().filter(|token| !token.ends);
        let content = content.map(|token| ChatToken {
            token: named(token.token, &token.bytes, token.logprob.unwrap_or(0.0)),
            top_logprobs: (token.top.iter())
                .map(|likely| named(likely.token, &likely.bytes, likely.logprob))
                .collect(),
        });
        Self {
            content: content.collect(),
            refusal: (),
        }
    }

    /// Creates the object as [`new`](Self::new) does; `None` if there are no tokens. For chunks of
    /// a stream.
    pub(super) fn from_chunk(tokens: &'a [TextLogprob], by_id: bool) -> Option<Self> {
        let logprobs = Self::new(tokens, by_id);
        (!logprobs.content.is_empty()).then_some(logprobs)
    }

    /// Returns the tokens, each as an object of its own.
    pub(super) fn listed(&self) -> Vec<Value> {
        self.content.iter().map(|token| json!(token)).collect()
    }
}

/// The `logprobs` of a choice of a completion, in a whole answer or a chunk. The lists have one
/// entry for each token, including the one that ended the text, so that their length is the number
/// of tokens.
#[derive(Default, Serialize)]
pub(super) struct TextLogprobs {
    tokens: Vec<String>,
    token_logprobs: Vec<Option<f32>>,
    top_logprobs: Vec<Option<Map<String, Value>>>,
    text_offset: Vec<usize>,
}

impl TextLogprobs {
    /// Appends tokens of a text that begins at this character of the answer.
    pub(super) fn extend(&mut self, tokens: &[TextLogprob], begins: usize, by_id: bool) {
        for token in tokens {
            let name = spelled(token.token, &token.bytes, "bytes:", by_id);
            self.tokens.push(name);
            self.token_logprobs.push(token.logprob.map(finite));
            self.top_logprobs.push(likeliest(token, by_id));
            self.text_offset.push(begins + token.offset);
        }
    }

    /// Creates the lists for a chunk; `None` if it has no tokens.
    pub(super) fn from_chunk(tokens: &[TextLogprob], begins: usize, by_id: bool) -> Option<Self> {
        let mut logprobs = Self::default();
        logprobs.extend(tokens, begins, by_id);
        (!tokens.is_empty()).then_some(logprobs)
    }
}

/// Returns the likeliest tokens at a position as an object, with the chosen token if it is not
/// among them; `None` for a token without a probability. Of tokens with the same spelling, the
/// likeliest counts.
fn likeliest(token: &TextLogprob, by_id: bool) -> Option<Map<String, Value>> {
    let chosen = (token.token, &token.bytes, token.logprob?);
    let top = token.top.iter();
    let top = top.map(|likely| (likely.token, &likely.bytes, likely.logprob));
    let mut likeliest = Map::new();
    for (id, bytes, logprob) in top.chain([chosen]) {
        let entry = likeliest.entry(spelled(id, bytes, "bytes:", by_id));
        entry.or_insert_with(|| number(finite(logprob)));
    }
    Some(likeliest)
}

/// Returns a log probability that JSON can have.
pub(super) fn finite(logprob: f32) -> f32 {
    if logprob > LOWEST { logprob } else { LOWEST }
}

/// Returns a token by its id, or as text. If it is not whole characters, its bytes are written as
/// escapes after `prefix`.
fn spelled(id: Token, bytes: &[u8], prefix: &str, by_id: bool) -> String {
    if by_id {
        return format!("token_id:{id}");
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.to_owned();
    }
    let escapes = bytes.iter().map(|byte| format!("\\x{byte:02x}"));
    std::iter::once(prefix.to_owned()).chain(escapes).collect()
}

/// The `prompt_logprobs` of answers in vLLM's form, with this many likeliest tokens at each place.
/// The first token of a prompt has null. Each other one has the likeliest tokens at its place and
/// itself, by their ids.
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
    decoded_token: Cow<'a, str>,
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
