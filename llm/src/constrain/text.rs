//! State of a text under a constraint, by its bytes instead of its tokens.

use std::sync::Arc;

use llguidance::Matcher;
use llguidance::toktrie::TokenizerEnv;

use super::vocabulary::Vocabulary;
use crate::debug::show_fields;

/// A text under a constraint, up to some point.
#[derive(Clone)]
pub struct ConstrainedText {
    /// `None` once the text cannot match any more, or if that is unknown.
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

    /// Appends `text`. Nothing can follow a text that does not match.
    pub fn push(&mut self, text: &str) {
        let tokens = self.vocabulary.tok_trie().greedy_tokenize(text.as_bytes());
        let Some(matcher) = &mut self.matcher else {
            return;
        };
        if matcher.try_consume_tokens(&tokens).ok() != Some(tokens.len()) {
            self.matcher = None;
        }
    }

    /// Returns true if the text matches the constraint as it is.
    pub fn can_end(&mut self) -> bool {
        let matcher = self.matcher.as_mut();
        matcher.is_some_and(|matcher| matcher.is_accepting().unwrap_or(false))
    }
}

show_fields!(ConstrainedText {});
