//! Limits on the length of JSON numbers. A JSON grammar allows any number of digits, and a model
//! could repeat them forever, in one third for example. [`schema`](super::schema) limits integers.
//! This module limits other numbers: after many digits in a row, no further digit is allowed where
//! the number can end.

use std::sync::Arc;

use llguidance::toktrie::{SimpleVob, TokTrie, TokenId};

use super::vocabulary::Vocabulary;

/// Maximum number of digits in a row: more than the significant digits of any 64-bit integer or
/// floating-point number.
const LONGEST: usize = 20;
/// Maximum number of digits in an exponent: floating-point numbers have no more.
const LONGEST_EXPONENT: usize = 3;

/// Tokens of one vocabulary that distinguish numbers from other text with digits.
pub(super) struct Numerals {
    /// The tokens that begin with a digit.
    digits: SimpleVob,
    /// Tokens that can follow digits in a string, but never in a number.
    of_strings: Vec<TokenId>,
}

impl Numerals {
    pub(super) fn new(trie: &TokTrie) -> Self {
        let mut digits = trie.alloc_token_set();
        for token in 0..trie.vocab_size() as TokenId {
            if trie.token(token).first().is_some_and(u8::is_ascii_digit) {
                digits.allow_token(token);
            }
        }
        let of_strings = ["\"", "x"].into_iter();
        let of_strings = of_strings.filter_map(|text| trie.token_id(text.as_bytes()));
        Self {
            digits,
            of_strings: of_strings.collect(),
        }
    }
}

/// The digits at the end of a text.
#[derive(Clone)]
pub(super) struct Numbers {
    vocabulary: Arc<Vocabulary>,
    row: usize,
    /// The two bytes before them.
    before: [u8; 2],
}

impl Numbers {
    pub(super) fn new(vocabulary: Arc<Vocabulary>) -> Self {
        Self {
            vocabulary,
            row: 0,
            before: [0; 2],
        }
    }

    /// Adds a token to the text.
    pub(super) fn push(&mut self, token: TokenId) {
        let bytes = self.vocabulary.bytes(token);
        let digits = bytes.iter().rev().take_while(|byte| byte.is_ascii_digit());
        let digits = digits.count();
        match bytes[..bytes.len() - digits] {
            [] => self.row += digits,
            [only] => {
                let last = if self.row == 0 { self.before[1] } else { b'0' };
                (self.row, self.before) = (digits, [last, only]);
            }
            [.., first, second] => (self.row, self.before) = (digits, [first, second]),
        }
    }

    /// Removes digits from the mask if the number is long enough and can end.
    pub(super) fn bound(&self, mask: &mut SimpleVob) {
        let longest = match self.before {
            [_, b'e' | b'E'] | [b'e' | b'E', b'+' | b'-'] => LONGEST_EXPONENT,
            _ => LONGEST,
        };
        if self.row < longest {
            return;
        }
        let numerals = self.vocabulary.numerals();
        let is_string = |token: &TokenId| mask.is_allowed(*token);
        if numerals.of_strings.iter().any(is_string) {
            return;
        }
        let mut others = mask.clone();
        others.sub(&numerals.digits);
        if !others.is_zero() {
            *mask = others;
        }
    }
}
