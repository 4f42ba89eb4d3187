//! Division of a batch into the cheapest set of passes, for KV caches per sequence.
//!
//! llama.cpp computes the same number of tokens of neighboring sequences in one pass over the
//! weights. The tokens that sequences have beyond the shortest of them take another pass, and so
//! does each gap between sequences. In a pass, plain attention reads as many cells of every
//! sequence as the longest one has: beside one long sequence, short ones cost as much as long ones.
//! A second pass over the weights is then often cheaper than one pass for all.
//!
//! The unit of cost is a cell that a token's attention reads. A pass costs the number of cells that
//! take as long to read as the weights.
//!
//! A pass is computed with the same adapters at the same scales, or with none. Adapters divide a
//! batch even if nothing else does. Sequences that go back to states of their last tokens come last,
//! see [`GoesBack`].

mod passes;
#[cfg(test)]
mod tests;

use super::ffi::Context;
use crate::backend::interface::{Adapters, BatchToken, DecodeError};
pub(super) use passes::GoesBack;
use passes::Passes;

/// Computes batches pass by pass.
#[derive(Default)]
pub(super) struct SubBatches {
    passes: Passes,
    /// The tokens of a pass, kept to reuse their memory.
    pass: Vec<BatchToken>,
    /// The logits of a batch that took several passes; empty after others.
    rows: Vec<f32>,
    /// The hidden states of such a batch.
    hidden: Vec<f32>,
}

impl SubBatches {
    /// Divides batches with this cost of a pass, in cells. With `None`, the lengths of sequences
    /// make no difference.
    pub(super) fn new(pass_cost: Option<u64>, goes_back: Option<GoesBack>) -> Self {
        Self {
            passes: Passes::new(pass_cost, goes_back),
            ..Self::default()
        }
    }

    /// Computes a batch whose sequences come one after the other, in the order of slots.
    pub(super) fn decode(
        &mut self,
        context: &mut Context<'_>,
        batch: &[BatchToken],
    ) -> Result<(), DecodeError> {
        self.rows.clear();
        self.hidden.clear();
        self.passes.divide(batch);
        if self.passes.len() <= 1 {
            context.use_adapters(adapters_of(batch));
            return context.decode(batch);
        }
        let (n_vocab, width) = (context.n_vocab, context.hidden_width());
        let asked = batch.iter().filter(|token| token.logits).count();
        self.rows.resize(asked * n_vocab, 0.0);
        let asked = batch.iter().filter(|token| token.hidden).count();
        self.hidden.resize(asked * width, 0.0);
        for (number, indices) in self.passes.iter().enumerate() {
            self.pass.clear();
            self.pass.extend(indices.iter().map(|index| batch[*index]));
            context.use_adapters(adapters_of(&self.pass));
            if let Err(error) = context.decode(&self.pass) {
                self.rows.clear();
                if error == DecodeError::NoCells {
                    // The cells of the passes before are freed, if the model can go back.
                    let mut before = self.passes.iter().take(number).flatten();
                    let went_back = before.all(|index| {
                        let token = &batch[*index];
                        context.remove(token.slot.0, token.position)
                    });
                    if !went_back {
                        let message =
                            "the KV cache has too few free cells for all passes of a step";
                        return Err(DecodeError::Failed(message.to_owned()));
                    }
                }
                return Err(error);
            }
            let logits = context.logits();
            put_in_order(&mut self.rows, batch, indices, logits, n_vocab, |token| {
                token.logits
            });
            let hidden = context.hidden();
            put_in_order(&mut self.hidden, batch, indices, hidden, width, |token| {
                token.hidden
            });
        }
        Ok(())
    }

    /// The rows of logits of the last batch, in its order.
    pub(super) fn logits<'a>(&'a self, context: &'a Context<'_>) -> &'a [f32] {
        if self.rows.is_empty() {
            context.logits()
        } else {
            &self.rows
        }
    }

    /// The hidden states of the last batch, in its order.
    pub(super) fn hidden<'a>(&'a self, context: &'a Context<'_>) -> &'a [f32] {
        if self.hidden.is_empty() {
            context.hidden()
        } else {
            &self.hidden
        }
    }
}

/// Returns the adapters of a pass, which all of its tokens have.
fn adapters_of(pass: &[BatchToken]) -> Adapters {
    pass.first().map(|token| token.adapters).unwrap_or_default()
}

/// Copies the rows of a pass, one for each of its tokens that asked, to their places in the whole
/// batch.
fn put_in_order(
    rows: &mut [f32],
    batch: &[BatchToken],
    pass: &[usize],
    computed: &[f32],
    width: usize,
    asks: impl Fn(&BatchToken) -> bool,
) {
    let asked = pass.iter().filter(|index| asks(&batch[**index]));
    for (index, computed) in asked.zip(computed.chunks_exact(width.max(1))) {
        let row = batch[..*index].iter().filter(|token| asks(token)).count() * width;
        rows[row..row + width].copy_from_slice(computed);
    }
}
