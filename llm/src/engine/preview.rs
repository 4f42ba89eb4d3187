//! What a prompt would take if it were admitted now: asked from outside, answered by the engine's thread, which alone knows the
//! prefix tree. Nothing is reserved or marked as used.

use std::sync::Arc;

use super::step::Core;
use super::{Command, Engine};
use crate::cache::ShareGroup;
use crate::protocol::{SubmitError, Token};

/// What a prompt would take if it were admitted now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromptPreview {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Of these, the first ones that would be taken over from other sequences instead of computed.
    pub cached_tokens: u32,
    /// KV cells the prompt would take. Cells shared with a running sequence take none.
    pub cells: u32,
}

/// A prompt to look at, and who wants to know.
pub(crate) struct Question {
    prompt: Vec<Token>,
    group: ShareGroup,
    answer: Box<dyn FnOnce(PromptPreview) + Send>,
}

impl Engine {
    /// Asks what a prompt would take if it were admitted now, with this cache salt and adapter. `answer` is called on the engine's thread,
    /// between two steps; not at all if the engine stops first.
    ///
    /// # Errors
    /// As [`submit`](Self::submit), for prompts that can never run.
    pub fn preview(
        &self,
        prompt: Vec<Token>,
        salt: &Arc<str>,
        adapter: Option<&str>,
        answer: impl FnOnce(PromptPreview) + Send + 'static,
    ) -> Result<(), SubmitError> {
        self.check_prompt(&prompt, 1)?;
        let question = Question {
            prompt,
            group: self.group(adapter, salt)?,
            answer: Box::new(answer),
        };
        self.commands
            .send(Command::Preview(Box::new(question)))
            .map_err(|_| SubmitError::Stopped)
    }
}

impl Core<'_> {
    /// Answers a question about a prompt.
    pub(super) fn answer(&self, question: Question) {
        let prompt_tokens = question.prompt.len() as u32;
        let (cached_tokens, copied) = self.would_take_over(&question.group, &question.prompt);
        (question.answer)(PromptPreview {
            prompt_tokens,
            cached_tokens,
            cells: prompt_tokens - cached_tokens + copied,
        });
    }
}
