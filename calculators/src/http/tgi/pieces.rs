//! The text of an answer, divided among its tokens.

use serde_json::{Value, json};

use crate::http::{logprobs::finite, wire::number};
use crate::payload::{LikelyToken, TextChunk, TextLogprob, Token};

/// A token with its part of the text.
#[derive(Clone, Debug)]
pub(super) struct TokenText {
    /// Token, in the form of answers.
    pub(super) token: Value,
    /// Likeliest tokens at its place, if the request asks for them.
    pub(super) top: Value,
}

/// A division of a choice's text among its tokens. The joined texts of all tokens except special
/// ones are the text.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// Number of characters of the text so far.
    characters: usize,
    /// Text that waits for a token.
    left: String,
}

impl Pieces {
    /// Divides the text of a chunk.
    pub(super) fn divide(&mut self, chunk: &TextChunk) -> Vec<TokenText> {
        let mut at = self.characters;
        self.characters += chunk.text.chars().count();
        let mut rest = chunk.text.chars();
        let ends = chunk.logprobs.iter().skip(1).map(|next| next.offset);
        let ends = ends.chain([self.characters]);
        let pieces = chunk.logprobs.iter().zip(ends);
        let pieces = pieces.map(|(token, end)| {
            let end = end.clamp(at, self.characters);
            let mut text = std::mem::take(&mut self.left);
            text.extend(rest.by_ref().take(end - at));
            at = end;
            if token.ends || (token.special && text.is_empty()) {
                text.push_str(&spelled(&token.bytes));
            }
            TokenText {
                token: entry(
                    token.token,
                    &text,
                    token.logprob,
                    token.special || token.ends,
                ),
                top: token.top.iter().map(likely).collect(),
            }
        });
        let pieces = pieces.collect();
        self.left.extend(rest);
        pieces
    }
}

/// Returns a token of a prompt in the form of answers.
pub(super) fn input(of: &TextLogprob) -> Value {
    json!({ "id": of.token, "text": spelled(&of.bytes), "logprob": of.logprob.map(finite).map(number) })
}

fn likely(of: &LikelyToken) -> Value {
    entry(of.token, &spelled(&of.bytes), Some(of.logprob), of.special)
}

fn entry(id: Token, text: &str, logprob: Option<f32>, special: bool) -> Value {
    let logprob = logprob.map(finite).map(number);
    json!({ "id": id, "text": text, "logprob": logprob, "special": special })
}

fn spelled(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
