//! Chooses tokens for the sequences whose last tokens were in the batch, on several threads where there is enough to look at.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use super::step::Core;
use crate::protocol::Token;
use crate::sampler::{self, Scratch};
use crate::sequence::Sequence;

/// Logits that one thread looks at by itself: to meet the others takes as long as looking at some ten thousand, longer where one has gone
/// to sleep.
const GRAIN: usize = 75_000;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Core<'_> {
    /// Samples the sequences whose last tokens were in the batch.
    pub(super) fn sample(&mut self) {
        let mut begin = 0;
        let mut rows = 0;
        for work in &self.plan.work {
            let end = begin + (work.tokens + work.drafts) as usize;
            let asked = self.batch[begin..end].iter().filter(|token| token.logits);
            let asked = asked.count();
            begin = end;
            if asked == 0 {
                continue;
            }
            let index = self
                .running_index(work.id)
                .expect("only running sequences have work");
            let sequence = &mut self.running[index];
            let reaches_end = (sequence.computed + work.tokens) as usize == sequence.tokens.len();
            let chooses = if reaches_end {
                1 + work.drafts as usize
            } else {
                0
            };
            sequence.prompt_rows = rows..rows + asked - chooses;
            sequence.rows = sequence.prompt_rows.end..rows + asked;
            rows += asked;
        }
        let logits = Logits {
            rows: self.backend.logits(),
            n_vocab: self.backend.n_vocab(),
            end_tokens: &self.end_tokens,
        };
        let several = self.plan.work.len() > 1;
        let looks = logits.looks(&self.running);
        let left = Mutex::new(
            self.running
                .iter_mut()
                .filter(|sequence| sequence.has_rows()),
        );
        let sample = || {
            SCRATCH.with_borrow_mut(|scratch| {
                let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
                while let Some(sequence) = next() {
                    logits.sample_one(sequence, scratch);
                }
            });
        };
        if several && looks > GRAIN {
            self.backend.on_threads(&sample);
        } else {
            sample();
        }
        for work in &self.plan.work {
            let index = self
                .running_index(work.id)
                .expect("only running sequences have work");
            let sampled = self.running[index].sampled.drain(..);
            self.samples
                .extend(sampled.map(|sampled| (work.id, sampled)));
        }
    }
}

/// What sampling reads.
struct Logits<'a> {
    rows: &'a [f32],
    n_vocab: usize,
    end_tokens: &'a [Token],
}

impl Logits<'_> {
    /// How many logits sampling these sequences looks at.
    fn looks(&self, sequences: &[Sequence]) -> usize {
        let passes = |sequence: &Sequence| {
            let masking = usize::from(sequence.is_constrained());
            sequence.rows.len() * (sequence.sampler.passes() + masking)
                + sequence.prompt_rows.len() * sampler::LOGPROB_PASSES
        };
        self.n_vocab * sequences.iter().map(passes).sum::<usize>()
    }

    /// The logits of a row.
    fn row(&self, row: usize) -> &[f32] {
        &self.rows[row * self.n_vocab..][..self.n_vocab]
    }

    /// Finds the log probabilities of prompt tokens that the step has rows for.
    fn find_prompt_logprobs(&self, sequence: &mut Sequence, scratch: &mut Scratch) {
        let rows = std::mem::take(&mut sequence.prompt_rows);
        let Some(wanted) = &mut sequence.prompt_logprobs else {
            return;
        };
        for row in rows {
            let token = sequence.tokens[wanted.found.len() + 1];
            let logprob = sampler::log_probability(self.row(row), token, wanted.top, scratch);
            wanted.found.push(logprob);
        }
    }

    /// Samples each row with the state that the rows before it left, as long as the drafts prove right.
    fn sample_one(&self, sequence: &mut Sequence, scratch: &mut Scratch) {
        self.find_prompt_logprobs(sequence, scratch);
        for (ahead, row) in (0..).zip(std::mem::take(&mut sequence.rows)) {
            let sampled = sequence.choose(self.row(row), ahead, self.end_tokens, scratch);
            let token = sampled.as_ref().map(|sampled| sampled.token);
            sequence.sampled.push(sampled);
            // The next row is that of a draft: its logits count only if the draft is what was sampled.
            let drafted = sequence.drafts().get(ahead as usize).copied();
            if token != drafted || sequence.has_matched() {
                return;
            }
        }
    }
}
