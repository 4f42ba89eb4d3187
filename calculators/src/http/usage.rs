//! The token counts of an answer.

use graphmill_engine::RunCx;
use graphmill_llm::Usage;

use crate::payload::{Tally, TextChunk, TextRequest};

/// What the choices of an answer have taken and made.
#[derive(Default)]
pub(super) struct AnswerUsage {
    choices: Vec<Usage>,
}

impl AnswerUsage {
    /// The counts of the answer with one more chunk: those of all models and prompts of its session,
    /// where its host counts them, else those of its choices.
    pub(super) fn with(&mut self, run: &RunCx, request: &TextRequest, chunk: &TextChunk) -> Usage {
        if let Some(tally) = Tally::of(run) {
            return tally.read().usage();
        }
        let choice = chunk.index as usize;
        if self.choices.len() <= choice {
            self.choices.resize(choice + 1, Usage::default());
        }
        self.choices[choice] = chunk.usage;
        let mut sum = Usage::default();
        for (index, choice) in self.choices.iter().enumerate() {
            sum.generated_tokens += choice.generated_tokens;
            if let Some(drafts) = choice.drafts {
                let all = sum.drafts.get_or_insert_default();
                all.accepted += drafts.accepted;
                all.rejected += drafts.rejected;
            }
            // Each prompt counts once, however often it was answered.
            if index % request.n.max(1) as usize == 0 {
                sum.prompt_tokens += choice.prompt_tokens;
                sum.cached_tokens += choice.cached_tokens;
                sum.sound_tokens += choice.sound_tokens;
            }
        }
        sum
    }
}
