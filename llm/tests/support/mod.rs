//! A scripted backend that a test can hold between steps.

use std::ops::Range;
use std::time::Instant;

use graphmill_llm::backend::scripted::{Script, ScriptedBackend};
use graphmill_llm::backend::{
    BatchToken, Capacity, Checkpoint, DecodeError, DraftSupport, SaveError, SavedCells, SavedPart,
    Slot,
};
use graphmill_llm::{Backend, LlmEngine, LlmEngineSpec};

/// A scripted backend that calls the test before each step and when it rests, and asks it for the
/// time.
struct Gated<F, R, N> {
    inner: ScriptedBackend,
    before_step: F,
    at_rest: R,
    now: N,
}

impl<F: FnMut(&ScriptedBackend), R: FnMut(), N: Fn() -> Instant> Backend for Gated<F, R, N> {
    fn capacity(&self) -> Capacity {
        self.inner.capacity()
    }

    fn draft_support(&self) -> DraftSupport {
        self.inner.draft_support()
    }

    fn n_vocab(&self) -> usize {
        self.inner.n_vocab()
    }

    fn decode(&mut self, batch: &[BatchToken]) -> Result<(), DecodeError> {
        (self.before_step)(&self.inner);
        self.inner.decode(batch)
    }

    fn logits(&self) -> &[f32] {
        self.inner.logits()
    }

    fn remove(&mut self, slot: Slot, from: u32) {
        self.inner.remove(slot, from);
    }

    fn remove_before(&mut self, slot: Slot, position: u32) {
        self.inner.remove_before(slot, position);
    }

    fn share(&mut self, from: Slot, to: Slot, cells: u32) {
        self.inner.share(from, to, cells);
    }

    fn save(&mut self, slot: Slot, pieces: &[Range<u32>]) -> Result<Vec<SavedCells>, SaveError> {
        self.inner.save(slot, pieces)
    }

    fn checkpoint(&mut self, slot: Slot) -> Result<Checkpoint, SaveError> {
        self.inner.checkpoint(slot)
    }

    fn restore(
        &mut self,
        slot: Slot,
        from: u32,
        parts: &[SavedPart<'_>],
        checkpoint: Option<&Checkpoint>,
    ) -> Result<(), SaveError> {
        self.inner.restore(slot, from, parts, checkpoint)
    }

    fn relocate(&mut self, from: Slot, to: Slot) -> Result<(), SaveError> {
        self.inner.relocate(from, to)
    }

    fn clear(&mut self) {
        self.inner.clear();
    }

    fn rest(&mut self) {
        (self.at_rest)();
    }

    fn now(&self) -> Instant {
        (self.now)()
    }
}

/// An engine on a script that calls `before_step`, which may wait, on its own thread.
pub(crate) fn gated(
    script: Script,
    spec: LlmEngineSpec,
    before_step: impl FnMut(&ScriptedBackend) + Send + 'static,
) -> LlmEngine {
    watched(script, spec, before_step, || {}, Instant::now)
}

/// As [`gated`]; also calls `at_rest` when the backend is told to rest, and takes the time from
/// `now`.
pub(crate) fn watched(
    script: Script,
    spec: LlmEngineSpec,
    before_step: impl FnMut(&ScriptedBackend) + Send + 'static,
    at_rest: impl FnMut() + Send + 'static,
    now: impl Fn() -> Instant + Send + 'static,
) -> LlmEngine {
    let to_open = spec.clone();
    let open = move || {
        let (inner, vocab) = ScriptedBackend::new(script, &to_open);
        let backend = Gated {
            inner,
            before_step,
            at_rest,
            now,
        };
        Ok((backend, vocab))
    };
    LlmEngine::with_backend(spec, open).expect("the spec is valid")
}
