//! Records the results of a step and delivers the sampled tokens; or, if the step failed, ends its
//! sequences.

use std::sync::Arc;

use super::sequence::Sequence;
use super::step::Core;
use crate::protocol::{ErrorKind, FinishReason, GenerationError};

impl Core<'_> {
    /// Records the cells of the batch and delivers the sampled tokens.
    pub(super) fn commit(&mut self) {
        let mut prompt_tokens = 0;
        for work in &self.plan.work {
            let sequence = self.slots.working_mut(work);
            prompt_tokens += u64::from(sequence.prompt_left().min(work.tokens));
            let cells = &mut sequence.cells;
            self.prefixes.grow(cells, work.tokens + work.drafts);
            self.prefixes.reached(self.backend, work.id, cells);
        }
        let (generated, accepted) = self.deliver_samples();
        self.recover();
        let mut status = self.shared.published();
        status.steps += 1;
        status.prompt_tokens += prompt_tokens;
        status.generated_tokens += u64::from(generated);
        status.drafted_tokens += u64::from(self.batch.drafted);
        status.accepted_tokens += u64::from(accepted);
    }

    /// Delivers the sampled tokens, and removes the sequences that end with them. Returns the
    /// number of tokens and of accepted drafts.
    fn deliver_samples(&mut self) -> (u32, u32) {
        let now = self.backend.now();
        let (mut generated, mut accepted) = (0, 0);
        for work in &self.plan.work {
            let sequence = self.slots.working_mut(work);
            if sequence.sampled.is_empty() {
                continue;
            }
            let before = sequence.usage(now);
            let mut sampled = std::mem::take(&mut sequence.sampled);
            // What was sampled behind the end is dropped.
            let output = sequence.accept(sampled.drain(..), &*self.vocab, now);
            sequence.sampled = sampled;
            generated += output.usage.generated_tokens - before.generated_tokens;
            accepted += output.usage.accepted_drafts() - before.accepted_drafts();
            // Drafts that were not accepted leave cells behind.
            let kept = sequence.tokens.len() as u32 - 1;
            self.prefixes.cut(self.backend, &mut sequence.cells, kept);
            self.prefixes.extend(work.id, &sequence.tokens);
            self.shared
                .measured
                .output(&mut sequence.moments, now, &output);
            if output.finish.is_some() {
                self.finished.push(work.id);
            }
            let sink = Arc::clone(&sequence.sink);
            let credit = sequence.request.credits;
            self.outbox.push(work.id, sink, output, credit);
        }
        while let Some(id) = self.finished.pop() {
            self.remove(id);
        }
        (generated, accepted)
    }

    /// Lowers the number of usable cells and plans again, after the backend had fewer free cells
    /// than expected. Drafts are omitted first. If only one sequence holds cells, it ends with an
    /// error, because it can never continue.
    pub(super) fn retry_with_fewer_cells(&mut self) {
        self.prefixes.lower_usable_cells(self.batch.len() as u32);
        if self.batch.drafted > 0 {
            return;
        }
        let running = self.slots.running();
        if running.len() == 1 {
            self.fail_batch(
                ErrorKind::ResourceExhausted,
                "the KV cache cannot hold the sequence",
            );
        } else if let Some(last) = running.iter().max_by_key(|sequence| sequence.row().order()) {
            self.preempt(last.id);
        }
    }

    /// Ends the sequences of the batch with an error. The content of the cache is lost, so the
    /// other sequences are computed again.
    pub(super) fn fail_batch(&mut self, kind: ErrorKind, message: &str) {
        tracing::error!(
            step = self.slots.step(),
            sequences = self.plan.work.len(),
            message,
            "step failed"
        );
        self.shared.published().failed_steps += 1;
        let finish = FinishReason::Error(GenerationError::new(kind, message));
        let plan = std::mem::take(&mut self.plan);
        for work in &plan.work {
            if let Some(sequence) = self.slots.take(work.id) {
                self.fail(sequence, &finish);
            }
        }
        self.plan = plan;
        while let Some(sequence) = self.slots.pop() {
            self.requeue(sequence);
        }
        self.backend.clear();
    }

    /// Ends a sequence that was taken out of its slot.
    pub(super) fn fail(&mut self, mut sequence: Sequence, finish: &FinishReason) {
        self.queue.has_left(sequence.owner());
        self.release(&mut sequence);
        self.shared.measured.ended(finish);
        let now = self.backend.now();
        self.outbox.end(sequence, finish.clone(), now);
    }
}
