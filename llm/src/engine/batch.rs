//! Makes the batch of a step from the plan.

use super::step::Core;
use crate::backend::BatchToken;

/// Most bytes of logits of prompt tokens in a step, which llama.cpp keeps room for from then on.
const PROMPT_ROWS_BYTES: usize = 64 << 20;

impl Core<'_> {
    /// Shortens prompts in the plan whose tokens' logits are asked for, to as many as there is memory for in a step.
    pub(super) fn limit_prompt_rows(&mut self) {
        let row_bytes = self.backend.n_vocab() * size_of::<f32>();
        let mut left = (PROMPT_ROWS_BYTES / row_bytes.max(1)).max(1) as u32;
        for number in 0..self.plan.work.len() {
            let work = self.plan.work[number];
            let Ok(index) = self.running_index(work.id) else {
                continue;
            };
            let sequence = &self.running[index];
            let first = sequence.computed;
            let wanted = |position: &u32| sequence.wants_prompt_row(*position);
            let rows = (first..first + work.tokens).filter(wanted).count() as u32;
            if rows == 0 {
                continue;
            }
            // Rows are asked for from some position on to the last but one, so those that are too many are at the end.
            let mut tokens = work.tokens;
            if rows > left {
                let before = (first..first + work.tokens).take_while(|position| !wanted(position));
                tokens = before.count() as u32 + left;
            }
            left -= rows.min(left);
            self.plan.size.prompt_tokens -= work.tokens - tokens;
            self.plan.work[number].tokens = tokens;
        }
        self.plan.work.retain(|work| work.tokens > 0);
    }

    /// In the order of slots: a backend whose sequences have streams of their own computes neighboring slots together, and reads
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
            let adapter = sequence.group.adapter;
            let tokens = known.iter().chain(sequence.drafts());
            self.batch
                .extend(
                    (sequence.computed..)
                        .zip(tokens)
                        .map(|(position, token)| BatchToken {
                            token: *token,
                            position,
                            slot,
                            logits: sequence.wants_row(position),
                            adapter,
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
