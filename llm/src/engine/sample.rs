//! Chooses a token for each sequence whose last token was in the batch.

use super::step::Core;
use crate::protocol::Token;

impl Core<'_> {
    /// Samples a token for each sequence whose last token was in the batch.
    pub(super) fn sample(&mut self) {
        let mut last = 0;
        for work in &self.plan.work {
            last += work.tokens as usize;
            if !self.batch[last - 1].logits {
                continue;
            }
            let index = self
                .running_index(work.id)
                .expect("only running sequences have work");
            let sequence = &mut self.running[index];
            let banned: &[Token] = if sequence.bans_end() {
                &self.end_tokens
            } else {
                &[]
            };
            let sampled =
                sequence
                    .sampler
                    .sample(self.backend.logits(last - 1), banned, &mut self.scratch);
            self.samples.push((work.id, sampled));
        }
    }
}
