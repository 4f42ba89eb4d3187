//! Finds tokens that would continue a repetition.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::debug::show_fields;
use crate::model::vocab::Vocab;
use crate::protocol::{DryParams, Token};

/// Natural logarithm of the largest `f32`, rounded down.
const MOST: f32 = 88.722;

/// The tokens so far, with the state of the search for repetitions.
#[derive(Clone)]
pub(super) struct Dry {
    params: DryParams,
    vocab: Arc<dyn Vocab>,
    tokens: Vec<Token>,
    /// Number of tokens since the last breaker.
    since_breaker: usize,
    /// The end of the text since then, as long as the beginning of a breaker can be.
    tail: Vec<u8>,
    /// Length of the longest breaker, in bytes.
    longest: usize,
}

impl Dry {
    pub(super) fn new(params: DryParams, vocab: Arc<dyn Vocab>, prompt: &[Token]) -> Self {
        let longest = params.breakers.iter().map(String::len).max();
        let mut dry = Self {
            longest: longest.unwrap_or(0),
            params,
            vocab,
            tokens: Vec::with_capacity(prompt.len()),
            since_breaker: 0,
            tail: Vec::new(),
        };
        for token in prompt {
            dry.accept(*token);
        }
        dry
    }

    pub(super) fn accept(&mut self, token: Token) {
        self.tokens.push(token);
        let known = self.tail.len();
        self.vocab.piece(token, true, &mut self.tail);
        if self.breaks(&self.tail, known) {
            self.since_breaker = 0;
            self.tail.clear();
        } else {
            self.since_breaker += 1;
            let kept = self.tail.len().min(self.longest.saturating_sub(1));
            self.tail.drain(..self.tail.len() - kept);
        }
    }

    /// Subtracts from the logits of tokens that would make a repetition longer than allowed.
    pub(super) fn penalize(&self, row: &mut [f32]) {
        let last = self
            .params
            .last_tokens
            .map_or(usize::MAX, |last| last as usize);
        let tokens = &self.tokens[self.tokens.len().saturating_sub(last)..];
        let allowed = self.params.allowed_length as usize;
        let limit = self.since_breaker.min(tokens.len());
        if tokens.len() <= allowed || limit < allowed {
            return;
        }
        let mut longest: FxHashMap<Token, usize> = FxHashMap::default();
        for (distance, length) in repeats(tokens).into_iter().enumerate().skip(1) {
            let length = length.min(limit);
            if length >= allowed {
                // The token that followed the repetition the last time.
                let next = tokens[tokens.len() - distance];
                let known = longest.entry(next).or_default();
                *known = length.max(*known);
            }
        }
        let most = (MOST / self.params.base.ln()).floor();
        let mut piece = Vec::new();
        for (token, length) in longest {
            piece.clear();
            self.vocab.piece(token, true, &mut piece);
            if !self.breaks(&piece, 0) {
                let exponent = ((length - allowed) as f32).min(most);
                row[token as usize] -= self.params.multiplier * self.params.base.powf(exponent);
            }
        }
    }

    /// Returns true if a breaker is in a text. None is in its first `known` bytes.
    fn breaks(&self, text: &[u8], known: usize) -> bool {
        let occurs = |breaker: &String| {
            !breaker.is_empty()
                && text[(known + 1).saturating_sub(breaker.len())..]
                    .windows(breaker.len())
                    .any(|part| part == breaker.as_bytes())
        };
        self.params.breakers.iter().any(occurs)
    }
}

/// Returns for each distance from the end the number of tokens that end there and are also the last
/// ones. Looks at each token a bounded number of times, because a known repetition determines the
/// repetitions inside it.
fn repeats(tokens: &[Token]) -> Vec<usize> {
    let back = |distance: usize| tokens[tokens.len() - 1 - distance];
    let mut lengths = vec![0; tokens.len()];
    // The repetition that reaches furthest back: its range of distances.
    let (mut begin, mut end) = (0, 0);
    for distance in 1..tokens.len() {
        let mut length = 0;
        if distance < end {
            length = lengths[distance - begin].min(end - distance);
        }
        while distance + length < tokens.len() && back(length) == back(distance + length) {
            length += 1;
        }
        if distance + length > end {
            (begin, end) = (distance, distance + length);
        }
        lengths[distance] = length;
    }
    lengths
}

show_fields!(Dry { params });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::scripted::{Script, ScriptedBackend};
    use crate::settings::LlmEngineSpec;

    #[test]
    fn breakers_are_found_that_several_tokens_spell() {
        let spec = LlmEngineSpec::new("m.script.json");
        let (_, vocab) = ScriptedBackend::new(Script::default(), &spec);
        let params = DryParams {
            multiplier: 1.0,
            base: 1.75,
            allowed_length: 2,
            last_tokens: None,
            breakers: ["xyz", "q"].map(String::from).into(),
        };
        let since = |text: &str| {
            let tokens: Vec<Token> = text.bytes().map(Token::from).collect();
            Dry::new(params.clone(), Arc::clone(&vocab), &tokens).since_breaker
        };
        let texts = ["abxyzcd", "abxyz", "xyxyz!", "aqxy", "xyqz12"];
        assert_eq!(texts.map(since), [2, 0, 1, 2, 3]);
    }
}
