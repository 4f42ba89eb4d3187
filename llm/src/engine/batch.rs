//! Makes the batch of a step from the plan.

use super::step::Core;
use crate::backend::BatchToken;

impl Core<'_> {
    /// In the order of slots: a backend whose sequences have streams of their own computes neighbouring slots together, and reads
    /// the weights once more for each gap or step back.
    pub(super) fn fill_batch(&mut self) {
        self.sort_work();
        self.batch.clear();
        self.drafted = 0;
        for work in &self.plan.work {
            let index = self
                .running_index(work.id)
                .expect("only running sequences have work");
            let sequence = &mut self.running[index];
            sequence.last_step = self.step;
            let slot = sequence.slot.expect("running sequences have a slot");
            sequence.keep_drafts(work.drafts as usize);
            self.drafted += work.drafts;
            let known = &sequence.tokens[sequence.computed as usize..][..work.tokens as usize];
            let last = sequence.tokens.len() as u32 - 1;
            let tokens = known.iter().chain(sequence.drafts());
            self.batch
                .extend(
                    (sequence.computed..)
                        .zip(tokens)
                        .map(|(position, token)| BatchToken {
                            token: *token,
                            position,
                            slot,
                            logits: position >= last,
                        }),
                );
        }
    }

    fn sort_work(&mut self) {
        self.by_slot.clear();
        for work in &self.plan.work {
            let index = self
                .running_index(work.id)
                .expect("only running sequences have work");
            let slot = self.running[index].slot;
            self.by_slot
                .push((slot.expect("running sequences have a slot"), *work));
        }
        self.by_slot.sort_unstable_by_key(|(slot, _)| *slot);
        self.plan.work.clear();
        self.plan
            .work
            .extend(self.by_slot.iter().map(|(_, work)| *work));
    }
}
