//! Words that a text must not contain.

use std::sync::Arc;

use crate::model::vocab::{TokenizeError, Vocab};
use crate::protocol::Token;

/// Forbidden words as tokens. The last token of a word is forbidden where it would complete the
/// word. Clones share the data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadWords(Arc<[Box<[Token]>]>);

impl BadWords {
    /// Tokenizes words in the form that they have at the beginning of a text. If only the first
    /// token differs behind a space, also in that form.
    ///
    /// # Errors
    /// [`TokenizeError`] if a word is more than the tokenizer can take.
    pub fn new(words: &[String], vocab: &dyn Vocab) -> Result<Self, TokenizeError> {
        let mut all = Vec::with_capacity(words.len());
        for word in words {
            let bare = match word.trim_start() {
                "" => word,
                bare => bare,
            };
            let first = vocab.tokenize(bare, false, false)?;
            let behind_space = vocab.tokenize(&format!(" {bare}"), false, false)?;
            if behind_space.len() == first.len() && behind_space.first() != first.first() {
                all.push(behind_space.into());
            }
            if !first.is_empty() {
                all.push(first.into());
            }
        }
        Ok(Self(all.into()))
    }

    /// Returns true if there are no words.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the tokens that would complete a word. `said` are the generated tokens, last one
    /// first.
    pub(crate) fn completed_behind(
        &self,
        said: impl Iterator<Item = Token> + Clone,
    ) -> impl Iterator<Item = Token> {
        self.0.iter().filter_map(move |word| {
            let (last, before) = word.split_last()?;
            let mut said = said.clone();
            let is_said = before.iter().rev().all(|token| said.next() == Some(*token));
            is_said.then_some(*last)
        })
    }
}
