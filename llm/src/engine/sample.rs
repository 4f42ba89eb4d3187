//! Chooses a token for each sequence whose last token was in the batch, and further ones as long as its drafts prove right.

use super::step::Core;
use crate::protocol::Token;

impl Core<'_> {
    /// Samples the sequences whose last tokens were in the batch, each row with the state that the rows before it left.
    pub(super) fn sample(&mut self) {
        let mut end = 0;
        for work in &self.plan.work {
            let drafts = work.drafts as usize;
            end += work.tokens as usize + drafts;
            if !self.batch[end - 1].logits {
                continue;
            }
            let index = self
                .running_index(work.id)
                .expect("only running sequences have work");
            let sequence = &mut self.running[index];
            for (ahead, row) in (0..).zip(end - 1 - drafts..end) {
                let banned: &[Token] = if sequence.bans_end(ahead) {
                    &self.end_tokens
                } else {
                    &[]
                };
                let logits = self.backend.logits(row);
                let sampled = sequence.sampler.sample(logits, banned, &mut self.scratch);
                let token = sampled.as_ref().map(|sampled| sampled.token);
                self.samples.push((work.id, sampled));
                if let Some(token) = token {
                    sequence.sampler.accept(token);
                }
                // The next row is that of a draft: its logits count only if the draft is what was sampled.
                if token != sequence.drafts().get(ahead as usize).copied() {
                    break;
                }
            }
        }
    }
}
