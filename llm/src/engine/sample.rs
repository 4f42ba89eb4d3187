//! Samples tokens for the sequences whose last tokens were in the batch, on several threads if
//! there is enough work.

use std::cell::RefCell;
use std::sync::Mutex;

use super::batch::Batch;
use super::sequence::Sequence;
use super::slots::Slots;
use crate::backend::Backend;
use crate::lock::lock;
use crate::protocol::Token;
use crate::sampler::{self, Scratch};
use crate::schedule::RowWork;
use crate::speculate::Drafting;

/// Number of logits per thread. Synchronizing with other threads takes as long as scanning some ten
/// thousand logits, and longer if one of them sleeps.
const GRAIN: usize = 75_000;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Samples the sequences whose last tokens were in the batch. They keep their samples until the
/// step is committed.
pub(super) fn sample(
    backend: &dyn Backend,
    batch: &Batch,
    works: &[RowWork],
    slots: &mut Slots,
    end_tokens: &[Token],
) {
    let mut tokens = &batch.tokens[..];
    // Rows after images come before those of tokens.
    let (image_rows, mut rows) = batch.image_rows();
    let mut images = 0;
    for work in works {
        let sequence = slots.working_mut(work);
        if sequence.tile().is_some() {
            if sequence.wants_row(sequence.cells.computed() + work.tokens - 1) {
                sequence.take_rows(work, images, 1);
                images += 1;
            }
            continue;
        }
        let (own, after) = tokens.split_at((work.tokens + work.drafts) as usize);
        tokens = after;
        let asked = own.iter().filter(|token| token.logits).count();
        if asked > 0 {
            sequence.take_rows(work, rows, asked);
            rows += asked;
        }
    }
    let logits = Logits {
        image_rows,
        rows: backend.logits(),
        n_vocab: backend.n_vocab(),
        end_tokens,
    };
    let looks = logits.looks(slots.running());
    let running = slots.running_mut().iter_mut();
    let left = Mutex::new(running.filter(|sequence| sequence.has_rows()));
    let sample = || {
        SCRATCH.with_borrow_mut(|scratch| {
            let next = || lock(&left).next();
            while let Some(sequence) = next() {
                logits.sample_one(sequence, scratch);
            }
        });
    };
    if works.len() > 1 && looks > GRAIN {
        backend.on_threads(&sample);
    } else {
        sample();
    }
}

/// Inputs of sampling that are the same for all sequences.
struct Logits<'a> {
    /// Rows after images, which come before the others.
    image_rows: &'a [f32],
    rows: &'a [f32],
    n_vocab: usize,
    end_tokens: &'a [Token],
}

impl Logits<'_> {
    /// Number of logits scanned to sample these sequences.
    fn looks(&self, sequences: &[Sequence]) -> usize {
        let passes = |sequence: &Sequence| {
            let masking = usize::from(sequence.is_constrained());
            sequence.rows.len() * (sequence.sampler.passes() + masking)
                + sequence.prompt_rows.len() * sampler::LOGPROB_PASSES
        };
        self.n_vocab * sequences.iter().map(passes).sum::<usize>()
    }

    /// Returns the logits of a row.
    fn row(&self, row: usize) -> &[f32] {
        let begin = row * self.n_vocab;
        let (rows, begin) = match begin.checked_sub(self.image_rows.len()) {
            Some(begin) => (self.rows, begin),
            None => (self.image_rows, begin),
        };
        &rows[begin..][..self.n_vocab]
    }

    /// Computes the log probabilities of the prompt tokens that the step has rows for.
    fn find_prompt_logprobs(&self, sequence: &mut Sequence, scratch: &mut Scratch) {
        let rows = std::mem::take(&mut sequence.prompt_rows);
        let top = sequence.request.prompt_logprobs;
        let (Some(found), Some(top)) = (&mut sequence.prompt_logprobs, top) else {
            return;
        };
        for row in rows {
            let token = sequence.tokens[found.len() + 1];
            let row = self.row(row);
            let mut logprob = sampler::log_probability(row, token, top.into(), scratch);
            logprob.rank = Some(sampler::rank(row, token));
            found.push(logprob);
        }
    }

    /// Samples each row with the state after the rows before it, as long as the drafts are right.
    /// Does nothing but note it if a row has no finite logit.
    fn sample_one(&self, sequence: &mut Sequence, scratch: &mut Scratch) {
        let mut rows = sequence.prompt_rows.start..sequence.rows.end;
        let is_finite = rows.all(|row| self.row(row).iter().any(|logit| logit.is_finite()));
        sequence.soundness = sequence.soundness.after(is_finite);
        if !is_finite {
            (sequence.prompt_rows, sequence.rows) = (0..0, 0..0);
            return;
        }
        self.find_prompt_logprobs(sequence, scratch);
        for (ahead, row) in (0..).zip(std::mem::take(&mut sequence.rows)) {
            let sampled = sequence.choose(self.row(row), ahead, self.end_tokens, scratch);
            let token = sampled.as_ref().map(|sampled| sampled.token);
            sequence.sampled.push(sampled);
            // The next row belongs to a draft: its logits count only if the draft equals the
            // sample.
            let drafted = sequence.drafts().get(ahead as usize).copied();
            if token != drafted || sequence.ending().is_some() {
                return;
            }
        }
    }
}
