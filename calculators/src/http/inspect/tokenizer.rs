//! The dialects of a model's tokenizer: `tokenize`, which has the fields of many servers,
//! `detokenize`, and LMDeploy's `encode`.

use graphmill_dialects::bodies::{DETOKENIZE, ENCODE, TOKENIZE};

use crate::http::{
    completions::Completions,
    dialect::{Dialect, Family, Purpose, Route},
};

/// A dialect of the tokenizer, with one path.
#[derive(Debug)]
pub(in crate::http) struct Tokenizer(&'static [Route]);

impl Tokenizer {
    /// The dialect of `tokenize`: the tokens of a text.
    pub(in crate::http) const TOKENIZE: Self = Self(&[Route {
        path: TOKENIZE,
        purpose: Purpose::Tokens,
        summary: "Shows the tokens of a text",
        required: &["text"],
        answer: &["tokens", "count"],
    }]);
    /// The dialect of LMDeploy's `encode`: the tokens of a text.
    pub(in crate::http) const ENCODE: Self = Self(&[Route {
        path: ENCODE,
        purpose: Purpose::Encoding,
        summary: "Shows the tokens of a text, as LMDeploy does",
        required: &["input"],
        answer: &["input_ids", "length"],
    }]);
    /// The dialect of `detokenize`: the text of tokens.
    pub(in crate::http) const DETOKENIZE: Self = Self(&[Route {
        path: DETOKENIZE,
        purpose: Purpose::Text,
        summary: "Shows the text of tokens",
        required: &["tokens"],
        answer: &["prompt"],
    }]);
}

impl Dialect for Tokenizer {
    fn routes(&self) -> &'static [Route] {
        self.0
    }

    fn family(&'static self) -> Family {
        Family::Text(&Completions)
    }
}
