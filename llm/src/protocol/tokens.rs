//! Settings of a request for single tokens. They are prepared once, shared by all of its
//! generations, and used in each step.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::Token;

/// Maximum number of biases in a request: each step adds all of them.
const MAX_BIASES: usize = 4_096;

/// Maximum number of tokens that a request can allow exclusively: each step looks at all of them.
const MAX_ALLOWED: usize = 16_384;

/// Biases of single tokens, added to their logits. Clones share the data.
///
/// The list is sorted and has each token once, so applying it is one pass over the row.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "Biases")]
pub struct LogitBias(Arc<[(Token, f32)]>);

impl FromIterator<(Token, f32)> for LogitBias {
    /// Adds up the biases of the same token.
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

/// The forms of biases in requests.
#[derive(Deserialize)]
#[serde(untagged)]
enum Biases {
    ByToken(BTreeMap<String, f32>),
    Pairs(Vec<(Token, Bias)>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Bias {
    Number(f32),
    Banned(bool),
}

impl From<Biases> for LogitBias {
    fn from(biases: Biases) -> Self {
        let bias = |bias| match bias {
            Bias::Number(bias) => bias,
            Bias::Banned(stays) if stays => 0.0,
            Bias::Banned(_) => f32::NEG_INFINITY,
        };
        match biases {
            Biases::ByToken(biases) => {
                let pairs = biases.into_iter();
                pairs
                    .filter_map(|(token, bias)| Some((token.parse().ok()?, bias)))
                    .collect()
            }
            Biases::Pairs(pairs) => {
                let pairs = pairs.into_iter();
                pairs.map(|(token, it)| (token, bias(it))).collect()
            }
        }
    }
}

impl LogitBias {
    /// Returns the schema of these forms.
    pub(super) fn schema(_: &mut SchemaGenerator) -> Schema {
        let words = format!(
            "an object of numbers between -100 and 100 by token id, or an array of pairs of both; at most {MAX_BIASES}"
        );
        json_schema!({
            "x-words": words,
            "anyOf": [
                {
                    "type": "object", "maxProperties": MAX_BIASES,
                    "propertyNames": { "pattern": "^[0-9]+$" },
                    "additionalProperties": { "type": "number", "minimum": -100, "maximum": 100 },
                },
                {
                    "type": "array", "maxItems": MAX_BIASES,
                    "items": {
                        "type": "array", "minItems": 2, "maxItems": 2,
                        "x-kind": "a pair of a token id and a bias",
                        "prefixItems": [
                            { "type": "integer", "minimum": 0, "maximum": Token::MAX, "x-kind": "a token id" },
                            { "anyOf": [
                                { "type": "number", "minimum": -100, "maximum": 100 }, { "const": false },
                            ] },
                        ],
                    },
                },
            ],
        })
    }
}

/// Lists the biases by token, lowest first.
impl Deref for LogitBias {
    type Target = [(Token, f32)];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// A set of tokens of a vocabulary. Clones share the data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Vec<Token>")]
pub struct TokenSet(Arc<[Token]>);

impl TokenSet {
    /// Returns the schema of the tokens that may be chosen.
    pub(super) fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "array", "minItems": 1, "maxItems": MAX_ALLOWED,
            "items": {
                "type": "integer", "format": "token", "minimum": 0, "maximum": Token::MAX, "x-kind": "a token id",
            },
        })
    }

    /// Returns true if the set has the token. Takes logarithmic time.
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

/// Lists each token once, lowest first.
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
