//! What a request says about single tokens: prepared once, shared by all of its generations, and
//! looked at once a step.

use std::ops::Deref;
use std::sync::Arc;

use super::Token;

/// What is added to the logits of single tokens. Clones share it.
///
/// Sorted, each token once: to apply it is one pass over the row, however many pairs it was made
/// of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogitBias(Arc<[(Token, f32)]>);

impl FromIterator<(Token, f32)> for LogitBias {
    /// Biases of the same token are added up.
    fn from_iter<I: IntoIterator<Item = (Token, f32)>>(pairs: I) -> Self {
        let mut sorted: Vec<(Token, f32)> = pairs.into_iter().collect();
        sorted.sort_by_key(|(token, _)| *token);
        sorted.dedup_by(|(token, bias), (kept, sum)| {
            let same = token == kept;
            if same {
                *sum += *bias;
            }
            same
        });
        Self(sorted.into())
    }
}

impl From<Vec<(Token, f32)>> for LogitBias {
    fn from(pairs: Vec<(Token, f32)>) -> Self {
        pairs.into_iter().collect()
    }
}

/// By token, lowest first.
impl Deref for LogitBias {
    type Target = [(Token, f32)];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// Some of the tokens of a vocabulary. Clones share it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenSet(Arc<[Token]>);

impl TokenSet {
    /// Whether a token is one of them. Takes the logarithm of their number.
    pub fn contains(&self, token: Token) -> bool {
        self.0.binary_search(&token).is_ok()
    }
}

impl FromIterator<Token> for TokenSet {
    fn from_iter<I: IntoIterator<Item = Token>>(tokens: I) -> Self {
        let mut sorted: Vec<Token> = tokens.into_iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        Self(sorted.into())
    }
}

impl From<Vec<Token>> for TokenSet {
    fn from(tokens: Vec<Token>) -> Self {
        tokens.into_iter().collect()
    }
}

/// Each once, lowest first.
impl Deref for TokenSet {
    type Target = [Token];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn biases_of_a_token_add_up_however_many_there_are() {
        let pairs = (0..1_000_000).map(|number| (number % 3, 1.0));
        let bias: LogitBias = pairs.chain([(7, f32::NEG_INFINITY), (7, 5.0)]).collect();
        assert_eq!(
            *bias,
            [
                (0, 333_334.0),
                (1, 333_333.0),
                (2, 333_333.0),
                (7, f32::NEG_INFINITY)
            ]
        );
        assert_eq!(bias.clone().as_ptr(), bias.as_ptr(), "clones share it");
    }

    #[test]
    fn a_set_has_each_token_once() {
        let set = TokenSet::from(vec![5, 1, 5, 3, 1]);
        assert_eq!(*set, [1, 3, 5]);
        assert!(set.contains(3) && !set.contains(4) && !TokenSet::default().contains(0));
    }
}
