//! Words that a text must not have.

use std::sync::Arc;

use crate::model::vocab::{TokenizeError, Vocab};
use crate::protocol::Token;

/// Words as tokens. The last token of a word is barred where it would complete the word. Clones
/// share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadWords(Arc<[Box<[Token]>]>);

impl BadWords {
    /// Makes tokens of words, as these are at the beginning of a text and, where that is one other
    /// token, behind a space.
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

    /// Returns true if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The tokens that would complete a word behind what was generated, of which `said` tells the
    /// last token first.
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
