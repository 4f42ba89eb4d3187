//! Books what a step computed and hands out what was sampled; or, if the step failed, ends the sequences it concerned.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::step::Core;
use crate::protocol::{ErrorKind, FinishReason, GenerationError};

impl Core<'_> {
    /// Books the batch's cells and hands out what was sampled.
    pub(super) fn commit(&mut self) {
        let mut prompt_tokens = 0;
        for work in &self.plan.work {
            let index = self
                .running_index(work.id)
                .expect("only running sequences have work");
            let sequence = &mut self.running[index];
            prompt_tokens += u64::from(sequence.prompt_left().min(work.tokens));
            sequence.computed += work.tokens + work.drafts;
            self.cells
                .grow(&mut sequence.held, work.tokens + work.drafts);
        }
        self.finished.clear();
        let now = Instant::now();
        let mut generated = 0;
        let mut accepted = 0;
        let mut samples = self.samples.drain(..).peekable();
        while let Some((id, _)) = samples.peek() {
            let id = *id;
            let index = self
                .running
                .binary_search_by_key(&id, |sequence| sequence.id)
                .expect("only running sequences are sampled");
            let sequence = &mut self.running[index];
            let before = sequence.usage();
            let mut run =
                std::iter::from_fn(|| Some(samples.next_if(|(other, _)| *other == id)?.1));
            let output = sequence.accept(&mut run, &*self.vocab);
            run.for_each(drop); // what was sampled behind the end
            generated += output.usage.generated_tokens - before.generated_tokens;
            accepted += output.usage.accepted_drafts() - before.accepted_drafts();
            // Drafts that were not accepted leave cells behind.
            let kept = sequence.tokens.len() as u32 - 1;
            if let Some(slot) = sequence.slot
                && sequence.computed > kept
            {
                self.backend.remove(slot, kept);
                self.cells
                    .shrink(&mut sequence.held, sequence.computed - kept);
                sequence.computed = kept;
            }
            self.sharing.tree.extend(id, &sequence.tokens);
            self.shared
                .measured
                .output(&mut sequence.moments, now, &output);
            if output.finish.is_some() {
                self.finished.push(id);
            }
            let sink = Arc::clone(&sequence.sink);
            let credit = sequence.credits();
            self.outbox.push(id, sink, output, credit);
        }
        drop(samples);
        while let Some(id) = self.finished.pop() {
            self.cancel(id);
        }
        self.shared.steps.fetch_add(1, Ordering::Relaxed);
        self.shared
            .prompt_tokens
            .fetch_add(prompt_tokens, Ordering::Relaxed);
        self.shared
            .generated_tokens
            .fetch_add(u64::from(generated), Ordering::Relaxed);
        self.shared
            .drafted_tokens
            .fetch_add(u64::from(self.drafted), Ordering::Relaxed);
        self.shared
            .accepted_tokens
            .fetch_add(u64::from(accepted), Ordering::Relaxed);
    }

    /// The backend has fewer free cells than it should: plan with what it has shown to hold, which leaves drafts out first. If only
    /// one sequence holds cells, it can never go on.
    pub(super) fn retry_with_fewer_cells(&mut self) {
        let tried = self.cells.used() + self.batch.len() as u32;
        tracing::warn!(
            tried,
            usable = self.cells_usable,
            "the KV cache is smaller than it reported"
        );
        self.cells_usable = self.cells_usable.min(tried - 1);
        if self.drafted > 0 {
            return;
        }
        if self.running.len() == 1 {
            self.fail_batch(
                ErrorKind::ResourceExhausted,
                "the KV cache cannot hold the sequence",
            );
        } else if let Some(last) = self
            .running
            .iter()
            .max_by_key(|sequence| sequence.row().order())
        {
            self.preempt(last.id);
        }
    }

    /// Ends the sequences of the batch. The cache's content is lost with the step, so the others are computed again.
    pub(super) fn fail_batch(&mut self, kind: ErrorKind, message: &str) {
        tracing::error!(
            step = self.step,
            sequences = self.plan.work.len(),
            message,
            "step failed"
        );
        self.shared.failed_steps.fetch_add(1, Ordering::Relaxed);
        let plan = std::mem::take(&mut self.plan);
        for work in &plan.work {
            let Ok(index) = self.running_index(work.id) else {
                continue;
            };
            let mut sequence = self.running.remove(index);
            self.left.insert(sequence.request);
            self.release(&mut sequence);
            let error = GenerationError {
                kind,
                message: message.to_owned(),
            };
            let finish = FinishReason::Error(error);
            self.shared.measured.ended(&finish);
            let output = sequence.end(finish);
            self.outbox.push(sequence.id, sequence.sink, output, 0);
        }
        self.plan = plan;
        while let Some(sequence) = self.running.pop() {
            self.requeue(sequence);
        }
        self.backend.clear();
    }
}
