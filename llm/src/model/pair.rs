//! Joining a query and a document to the text that a ranking model reads.

use crate::model::vocab::{TokenizeError, Vocab};
use crate::protocol::Token;

/// The order of query, document and the tokens around them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairForm(Vec<PairPart>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum PairPart {
    Tokens(Vec<Token>),
    Query,
    Document,
}

impl PairForm {
    /// Makes a form with the query first, then the document, and these tokens around and between
    /// them.
    pub fn around(before: Vec<Token>, between: Vec<Token>, after: Vec<Token>) -> Self {
        Self(vec![
            PairPart::Tokens(before),
            PairPart::Query,
            PairPart::Tokens(between),
            PairPart::Document,
            PairPart::Tokens(after),
        ])
    }

    /// Parses a template with `{query}` and `{document}` in it, in which special tokens are spelled
    /// out; `None` if one of the two is missing.
    ///
    /// # Errors
    /// [`TokenizeError`] if the template is larger than the tokenizer can take.
    pub fn from_template(vocab: &dyn Vocab, template: &str) -> Result<Option<Self>, TokenizeError> {
        const QUERY: &str = "{query}";
        const DOCUMENT: &str = "{document}";
        if !template.contains(QUERY) || !template.contains(DOCUMENT) {
            return Ok(None);
        }
        let mut parts = Vec::new();
        let mut rest = template;
        while !rest.is_empty() {
            let places = [(QUERY, PairPart::Query), (DOCUMENT, PairPart::Document)];
            let next = places
                .into_iter()
                .filter_map(|(name, part)| Some((rest.find(name)?, name, part)))
                .min_by_key(|(index, ..)| *index);
            let end = next.as_ref().map_or(rest.len(), |(index, ..)| *index);
            if end > 0 {
                let text = vocab.tokenize(&rest[..end], false, true)?;
                parts.push(PairPart::Tokens(text));
            }
            let name = next.as_ref().map_or("", |(_, name, _)| *name);
            rest = &rest[end + name.len()..];
            parts.extend(next.map(|(.., part)| part));
        }
        Ok(Some(Self(parts)))
    }

    /// Returns the tokens of the joined text.
    pub fn join(&self, query: &[Token], document: &[Token]) -> Vec<Token> {
        let mut joined = Vec::new();
        for part in &self.0 {
            joined.extend_from_slice(match part {
                PairPart::Tokens(tokens) => tokens,
                PairPart::Query => query,
                PairPart::Document => document,
            });
        }
        joined
    }
}
