//! Estimates what a prompt would take if admitted now. The engine's thread answers, because only it
//! knows the prefix tree. Nothing is reserved or marked as used.

use std::sync::Arc;

use super::slots::Slots;
use super::{LlmEngine, Order, Waiting};
use crate::cache::{PrefixCache, ShareGroup};
use crate::protocol::{GenerationError, SubmitError, Token};
use crate::vision::PlacedTile;
use crate::worker::{Seat, Waiter, stopped};

/// What a prompt would take if it were admitted now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromptPreview {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Of these, the first ones that would be reused from other sequences instead of computed.
    pub cached_tokens: u32,
    /// KV cells the prompt would take. Cells shared with a running sequence take none.
    pub cells: u32,
}

/// A prompt to estimate, and the receiver of the answer.
pub(crate) struct Question {
    prompt: Vec<Token>,
    group: ShareGroup,
    answer: Arc<Waiter<PromptPreview>>,
    _seat: Seat<Waiting>,
}

impl Drop for Question {
    fn drop(&mut self) {
        // Does nothing unless the engine ends with the question in its hands.
        self.answer.tell(Err(stopped()));
    }
}

impl LlmEngine {
    /// Asks what a prompt with these tiles of images would take if it were admitted now, with this
    /// cache salt and adapter.
    /// `answer` is called on the engine's thread, between two steps; with an error, on any thread,
    /// if the engine fails first.
    ///
    /// # Errors
    /// As [`submit`](Self::submit), for prompts that can never run.
    pub fn preview(
        &self,
        prompt: Vec<Token>,
        tiles: &[PlacedTile],
        salt: &Arc<str>,
        adapter: Option<&str>,
        answer: impl FnOnce(Result<PromptPreview, GenerationError>) + Send + 'static,
    ) -> Result<(), SubmitError> {
        self.check_prompt(&prompt, tiles, None)?;
        let group = self.group(adapter, salt)?;
        let answer = Arc::new(Waiter::new(Box::new(answer)));
        let waiting = Waiting::Question(Arc::clone(&answer));
        let seat = self.worker.seat(self.worker.number(), waiting);
        let question = Question {
            prompt,
            group,
            answer,
            _seat: seat.map_err(SubmitError::Failed)?,
        };
        if self.worker.order(Order::Preview(Box::new(question))) {
            Ok(())
        } else {
            Err(SubmitError::Stopped)
        }
    }
}

impl Question {
    /// Answers with what the prompt would take beside the sequences that run.
    pub(super) fn answer(&self, prefixes: &PrefixCache, slots: &Slots) {
        let prompt_tokens = self.prompt.len() as u32;
        let (cached_tokens, copied) = prefixes.would_take_over(&self.group, &self.prompt, slots);
        self.answer.tell(Ok(PromptPreview {
            prompt_tokens,
            cached_tokens,
            cells: prompt_tokens - cached_tokens + copied,
        }));
    }
}
