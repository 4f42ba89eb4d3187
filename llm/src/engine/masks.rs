//! Decodes a step, and works out beside it which tokens the sequences with a constraint can get from it.

use super::step::Core;
use crate::backend::DecodeError;

impl Core<'_> {
    /// Decodes the batch. What a constraint allows next depends on the tokens alone, not on their logits, so the threads that sample
    /// find it out meanwhile.
    pub(super) fn decode(&mut self) -> Result<(), DecodeError> {
        let (backend, batch, step) = (&mut *self.backend, &self.batch, self.step);
        let mut constrained = self
            .running
            .iter_mut()
            .filter(|sequence| sequence.last_step == step && sequence.is_constrained())
            .peekable();
        if constrained.peek().is_none() {
            return backend.decode(batch);
        }
        rayon_core::in_place_scope(|scope| {
            for sequence in constrained {
                scope.spawn(|_| sequence.prepare_masks());
            }
            backend.decode(batch)
        })
    }
}
