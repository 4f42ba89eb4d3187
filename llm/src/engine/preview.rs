//! What a prompt would take if it were admitted now: asked from outside, answered by the engine's thread, which alone knows the
//! prefix tree. Nothing is reserved or marked as used.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::step::Core;
use super::{Command, Engine, Waiting, stopped};
use crate::cache::ShareGroup;
use crate::live::{Live, Waiter};
use crate::protocol::{GenerationError, SubmitError, Token};

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

/// A prompt to look at, and who wants to know.
pub(crate) struct Question {
    prompt: Vec<Token>,
    group: ShareGroup,
    number: u64,
    answer: Arc<Waiter<PromptPreview>>,
    live: Arc<Live<Waiting>>,
}

impl Drop for Question {
    fn drop(&mut self) {
        // Does nothing unless the engine ends with the question in its hands.
        self.answer.tell(Err(stopped()));
        self.live.remove(self.number);
    }
}

impl Engine {
    /// Asks what a prompt would take if it were admitted now, with this cache salt and adapter. `answer` is called on the engine's thread,
    /// between two steps; with an error, on any thread, if the engine fails first.
    ///
    /// # Errors
    /// As [`submit`](Self::submit), for prompts that can never run.
    pub fn preview(
        &self,
        prompt: Vec<Token>,
        salt: &Arc<str>,
        adapter: Option<&str>,
        answer: impl FnOnce(Result<PromptPreview, GenerationError>) + Send + 'static,
    ) -> Result<(), SubmitError> {
        self.check_prompt(&prompt, None)?;
        let question = Question {
            prompt,
            group: self.group(adapter, salt)?,
            number: self.next_id.fetch_add(1, Ordering::Relaxed),
            answer: Arc::new(Waiter::new(Box::new(answer))),
            live: Arc::clone(&self.live),
        };
        let waiting = Waiting::Question(Arc::clone(&question.answer));
        let inserted = self.live.insert(question.number, waiting);
        inserted.map_err(SubmitError::Failed)?;
        self.shared.pulse.given();
        self.commands
            .send(Command::Preview(Box::new(question)))
            .map_err(|_| SubmitError::Stopped)
    }
}

impl Core<'_> {
    /// Answers a question about a prompt.
    pub(super) fn answer(&self, question: &Question) {
        self.shared.pulse.taken();
        let prompt_tokens = question.prompt.len() as u32;
        let (cached_tokens, copied) = self.would_take_over(&question.group, &question.prompt);
        question.answer.tell(Ok(PromptPreview {
            prompt_tokens,
            cached_tokens,
            cells: prompt_tokens - cached_tokens + copied,
        }));
    }
}
