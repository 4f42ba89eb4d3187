//! Makes the batch of a step from the plan.

use super::step::Core;
use crate::backend::BatchToken;

impl Core<'_> {
    pub(super) fn fill_batch(&mut self) {
        self.batch.clear();
        for work in &self.plan.work {
            let index = self
                .running_index(work.id)
                .expect("only running sequences have work");
            let sequence = &mut self.running[index];
            sequence.last_step = self.step;
            let slot = sequence.slot.expect("running sequences have a slot");
            for position in sequence.computed..sequence.computed + work.tokens {
                self.batch.push(BatchToken {
                    token: sequence.tokens[position as usize],
                    position,
                    slot,
                    logits: position as usize + 1 == sequence.tokens.len(),
                });
            }
        }
    }
}
