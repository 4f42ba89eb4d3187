//! Log probabilities on their way to an answer, and prompts that are repeated before it.

use std::collections::VecDeque;

use super::{Token, TokenLogprob};

/// A prompt as tokens, of which an answer tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EchoedTokens {
    /// The prompt.
    pub tokens: Vec<Token>,
    /// One for each token but the first; none unless the request asks for them.
    pub logprobs: Option<Vec<TokenLogprob>>,
}

/// A prompt as text, of which an answer tells. It is no part of what stop strings and parsers look
/// at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EchoedText {
    /// The prompt.
    pub text: String,
    /// The same as tokens.
    pub tokens: Vec<Token>,
    /// Its tokens; empty unless the request asks for them.
    pub logprobs: Vec<TextLogprob>,
}

/// A token of a text, with its log probability.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextLogprob {
    /// The token.
    pub token: Token,
    /// True if it is a special token, whose spelling may not be part of the text.
    pub special: bool,
    /// The place where the token begins in the text, in characters. A token that goes on with a
    /// character begins where that does.
    pub offset: usize,
    /// The text that it is written as, special tokens too. Need not be whole characters.
    pub bytes: Vec<u8>,
    /// The natural logarithm of its probability; none for the first token of a prompt.
    pub logprob: Option<f32>,
    /// Number of tokens that are at least as likely, itself included; only for tokens of a prompt.
    pub rank: Option<u32>,
    /// The likeliest tokens at its place, likeliest first.
    pub top: Vec<LikelyToken>,
    /// True if it ended the text, and so is no part of it.
    pub ends: bool,
}

/// A token that was likely at a place, with its log probability.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LikelyToken {
    /// The token.
    pub token: Token,
    /// True if it is a special token.
    pub special: bool,
    /// The text that it is written as.
    pub bytes: Vec<u8>,
    /// The natural logarithm of its probability.
    pub logprob: f32,
}

/// Log probabilities of a choice that wait for their text, in a node that holds text back.
#[derive(Clone, Debug, Default)]
pub struct HeldLogprobs {
    held: VecDeque<TextLogprob>,
    /// Characters that have left the node.
    released: usize,
}

impl HeldLogprobs {
    /// Takes in what came with a chunk.
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

    /// All that are left, at the end of a text that was not cut.
    pub fn finish(&mut self) -> Vec<TextLogprob> {
        self.held.drain(..).collect()
    }
}
