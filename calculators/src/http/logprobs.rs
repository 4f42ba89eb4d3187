//! Log probabilities in the answers of chats and completions.

use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::payload::TextLogprob;

/// What stands for a probability of zero: JSON has no infinity.
const LOWEST: f32 = -9999.0;

/// The `logprobs` of a choice of a chat, whole or chunk.
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
    /// Of these tokens. The token that ended the text is not part of the message.
    pub(super) fn new(tokens: &'a [TextLogprob]) -> Self {
        let content = tokens.iter().filter(|token| !token.ends);
        Self {
            content: content.map(ChatToken::new).collect(),
            refusal: (),
        }
    }

    /// As [`new`](Self::new), where there are any: what a chunk of a stream says.
    pub(super) fn of_chunk(tokens: &'a [TextLogprob]) -> Option<Self> {
        let logprobs = Self::new(tokens);
        (!logprobs.content.is_empty()).then_some(logprobs)
    }
}

impl<'a> ChatToken<'a> {
    fn new(token: &'a TextLogprob) -> Self {
        let top = token.top.iter();
        Self {
            token: TopToken::new(&token.bytes, token.logprob.unwrap_or(0.0)),
            top_logprobs: top
                .map(|(bytes, logprob)| TopToken::new(bytes, *logprob))
                .collect(),
        }
    }
}

impl<'a> TopToken<'a> {
    fn new(bytes: &'a [u8], logprob: f32) -> Self {
        Self {
            token: spelled(bytes, ""),
            logprob: finite(logprob),
            bytes,
        }
    }
}

/// The `logprobs` of a choice of a completion, whole or chunk. The lists have one entry for each
/// token, the one that ended the text included, so that as many are there as were asked for.
#[derive(Default, Serialize)]
pub(super) struct TextLogprobs<'a> {
    tokens: Vec<String>,
    token_logprobs: Vec<Option<f32>>,
    top_logprobs: Vec<Option<TopOf<'a>>>,
    text_offset: Vec<usize>,
}

impl<'a> TextLogprobs<'a> {
    /// Appends tokens of a text that begins at this character of the answer's.
    pub(super) fn extend(&mut self, tokens: &'a [TextLogprob], begins: usize) {
        for token in tokens {
            self.tokens.push(spelled(&token.bytes, "bytes:"));
            self.token_logprobs.push(token.logprob.map(finite));
            self.top_logprobs.push(token.logprob.map(|_| TopOf(token)));
            self.text_offset.push(begins + token.offset);
        }
    }

    /// Those of a chunk, where there are any.
    pub(super) fn of_chunk(tokens: &'a [TextLogprob], begins: usize) -> Option<Self> {
        let mut logprobs = Self::default();
        logprobs.extend(tokens, begins);
        (!tokens.is_empty()).then_some(logprobs)
    }
}

/// The likeliest tokens at a position, as an object, and the chosen token if it is not among them.
/// Of tokens with the same spelling, the likeliest counts.
struct TopOf<'a>(&'a TextLogprob);

impl Serialize for TopOf<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let likeliest = self.0.top.iter().map(|(bytes, logprob)| (bytes, *logprob));
        let chosen = self.0.logprob.map(|logprob| (&self.0.bytes, logprob));
        let mut seen: Vec<&[u8]> = Vec::with_capacity(self.0.top.len() + 1);
        let mut map = serializer.serialize_map(None)?;
        for (bytes, logprob) in likeliest.chain(chosen) {
            if !seen.contains(&bytes.as_slice()) {
                seen.push(bytes);
                map.serialize_entry(&spelled(bytes, "bytes:"), &finite(logprob))?;
            }
        }
        map.end()
    }
}

fn finite(logprob: f32) -> f32 {
    if logprob > LOWEST { logprob } else { LOWEST }
}

/// A token as text; where it is not whole characters, its bytes as escapes behind `prefix`.
fn spelled(bytes: &[u8], prefix: &str) -> String {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.to_owned();
    }
    let escapes = bytes.iter().map(|byte| format!("\\x{byte:02x}"));
    std::iter::once(prefix.to_owned()).chain(escapes).collect()
}
