//! Log probabilities for an answer, and prompts that are repeated before it.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Token, TokenLogprob, forms::EchoForm};

/// A prompt as tokens, to be repeated in an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "EchoForm", into = "EchoForm")]
pub struct EchoedTokens {
    /// Tokens of the whole prompt.
    pub tokens: Vec<Token>,
    /// Log probabilities, one for each token but the first; `None` unless the request asks for
    /// them.
    pub logprobs: Option<Vec<TokenLogprob>>,
}

/// A prompt as text, to be repeated in an answer. Stop strings and parsers do not see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EchoedText {
    /// Text of the whole prompt.
    pub text: String,
    /// Tokens of the whole prompt.
    pub tokens: Vec<Token>,
    /// Log probabilities of its tokens; empty unless the request asks for them.
    pub logprobs: Vec<TextLogprob>,
}

/// A token of a text, with its log probability.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextLogprob {
    /// Id of the token in the model's vocabulary.
    pub token: Token,
    /// True if it is a special token, whose spelling may not be part of the text.
    pub special: bool,
    /// Place in the text, in characters, at which the token begins. A token that continues a
    /// character begins where that does.
    pub offset: usize,
    /// Text of the token, for special tokens too. It need not be whole characters.
    pub bytes: Vec<u8>,
    /// Natural logarithm of its probability; `None` for the first token of a prompt.
    pub logprob: Option<f32>,
    /// Number of tokens that are at least as likely, including itself. Only for tokens of a prompt.
    pub rank: Option<u32>,
    /// The likeliest tokens at its place, in descending order.
    pub top: Vec<LikelyToken>,
    /// True if it ended the text. It is then not part of it.
    pub ends: bool,
}

/// A token that was likely at a place, with its log probability.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LikelyToken {
    /// Id of the token in the model's vocabulary.
    pub token: Token,
    /// True if it is a special token.
    pub special: bool,
    /// Text of the token. It need not be whole characters.
    pub bytes: Vec<u8>,
    /// Natural logarithm of its probability.
    pub logprob: f32,
}

/// Log probabilities of a choice that wait for their text, in a node that holds text back.
#[derive(Clone, Debug, Default)]
pub struct HeldLogprobs {
    held: VecDeque<TextLogprob>,
    /// Number of characters that have left the node.
    released: usize,
}

impl HeldLogprobs {
    /// Holds the log probabilities of a chunk.
    pub fn hold(&mut self, logprobs: Vec<TextLogprob>) {
        self.held.extend(logprobs);
    }

    /// Releases those of the tokens that begin in `text`, which leaves the node now.
    pub fn release(&mut self, text: &str) -> Vec<TextLogprob> {
        self.released += text.chars().count();
        let count = self
            .held
            .partition_point(|logprob| logprob.offset < self.released);
        self.held.drain(..count).collect()
    }

    /// Releases all that are left, at the end of a text that was not cut.
    pub fn finish(&mut self) -> Vec<TextLogprob> {
        self.held.drain(..).collect()
    }
}
