//! Estimates of a prompt's cost if it were admitted now. The engine's thread answers, because only
//! it has the prefix tree. Nothing is reserved or marked as used.

use std::sync::Arc;

use super::order::Waiting;
use super::slots::Slots;
use crate::cache::{PrefixCache, ShareGroup};
use crate::protocol::Token;
use crate::worker::{Seat, Waiter, stopped};

/// Cost of a prompt if it were admitted now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromptPreview {
    /// Number of tokens in the prompt.
    pub prompt_tokens: u32,
    /// Number of these tokens, from the first, that would be reused from other sequences.
    pub cached_tokens: u32,
    /// Number of KV cells that the prompt would take. Cells shared with a running sequence take
    /// none.
    pub cells: u32,
}

/// A prompt to estimate, and the receiver of the answer.
pub(crate) struct Question {
    pub(super) prompt: Vec<Token>,
    pub(super) group: ShareGroup,
    pub(super) answer: Arc<Waiter<PromptPreview>>,
    pub(super) _seat: Seat<Waiting>,
}

impl Drop for Question {
    fn drop(&mut self) {
        // Does nothing unless the engine ends with the question in its hands.
        self.answer.tell(Err(stopped()));
    }
}

impl Question {
    /// Answers with the cost of the prompt beside the running sequences.
    pub(super) fn answer(&self, prefixes: &PrefixCache, slots: &Slots) {
        let prompt_tokens = self.prompt.len() as u32;
        let offer = prefixes.preview(&self.group, &self.prompt, slots);
        self.answer.tell(Ok(PromptPreview {
            prompt_tokens,
            cached_tokens: offer.tokens,
            cells: prompt_tokens - offer.tokens + offer.cells,
        }));
    }
}
