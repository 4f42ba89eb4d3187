//! The token counts of an answer.

use graphmill_engine::RunCx;
use graphmill_llm::Usage;

use crate::payload::{Tally, TallyCounts, TextChunk, TextRequest};

/// Tokens that the choices of an answer have read and generated.
#[derive(Default)]
pub(super) struct AnswerUsage {
    choices: Vec<Usage>,
}

impl AnswerUsage {
    /// Returns the counts of the answer after one more chunk. They are those of all models and
    /// prompts of the session, if its host counts them, or else those of its choices.
    pub(super) fn with(&mut self, run: &RunCx, request: &TextRequest, chunk: &TextChunk) -> Usage {
        if let Some(tally) = Tally::find(run) {
            return tally.read().usage();
        }
        let choice = chunk.index as usize;
        if self.choices.len() <= choice {
            self.choices.resize(choice + 1, Usage::default());
        }
        self.choices[choice] = chunk.usage;
        let mut sum = TallyCounts::default();
        for (index, choice) in self.choices.iter().enumerate() {
            sum.generated += choice.generated_tokens;
            sum.draft(choice.drafts);
            // Each prompt counts once, even if it has several answers.
            if index % request.n.max(1) as usize == 0 {
                sum.prompt += choice.prompt_tokens;
                sum.cached += choice.cached_tokens;
                sum.sounds += choice.sound_tokens;
            }
        }
        sum.usage()
    }
}
