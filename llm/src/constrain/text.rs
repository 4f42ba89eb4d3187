//! Follows a constraint by the bytes of a text, whatever its tokens are.

use std::sync::Arc;

use llguidance::Matcher;
use llguidance::toktrie::TokenizerEnv;

use super::vocabulary::Vocabulary;

/// A text under a constraint, as far as it has come.
#[derive(Clone)]
pub struct ConstrainedText {
    /// None once the text is no beginning of one that matches, or it is not known.
    matcher: Option<Matcher>,
    vocabulary: Arc<Vocabulary>,
}

impl ConstrainedText {
    pub(super) fn new(matcher: Matcher, vocabulary: Arc<Vocabulary>) -> Self {
        Self {
            matcher: Some(matcher),
            vocabulary,
        }
    }

    /// Adds to the text.
    pub fn push(&mut self, text: &str) {
        let tokens = self.vocabulary.tok_trie().greedy_tokenize(text.as_bytes());
        let Some(matcher) = &mut self.matcher else {
            return;
        };
        if matcher.try_consume_tokens(&tokens).ok() != Some(tokens.len()) {
            self.matcher = None;
        }
    }

    /// Whether the text may end here, so that it matches.
    pub fn can_end(&mut self) -> bool {
        let matcher = self.matcher.as_mut();
        matcher.is_some_and(|matcher| matcher.is_accepting().unwrap_or(false))
    }
}

impl std::fmt::Debug for ConstrainedText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConstrainedText").finish_non_exhaustive()
    }
}
