//! Decodes a step, and works out beside it which tokens the sequences with a constraint can get from it.

use std::num::NonZero;
use std::thread;

use rayon_core::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

use super::step::Core;
use crate::backend::DecodeError;

/// Most threads that work out masks.
const MAX_THREADS: usize = 8;

/// Threads that work out masks with the calling one, which is one of them as long as they are there. Without work they sleep.
pub(super) fn threads(model: &str) -> Result<ThreadPool, ThreadPoolBuildError> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let model = model.to_owned();
    ThreadPoolBuilder::new()
        .num_threads(cores.min(MAX_THREADS))
        .thread_name(move |number| format!("mask {number} {model}"))
        .use_current_thread()
        .build()
}

impl Core<'_> {
    /// Decodes the batch. What a constraint allows next depends on the tokens alone, not on their logits, so other threads find
    /// it out meanwhile.
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
