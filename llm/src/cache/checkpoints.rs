//! Prefixes of models whose state is more than one cell per token: they are reused up to a
//! checkpoint.
//!
//! A checkpoint can be made only at a sequence's current position. A sequence stops to make one in
//! these places: where its prompt diverges from known prefixes, where a waiting sequence diverges
//! from it, where the last turn of its prompt begins, and a little before the end of its prompt. It
//! also makes one when it ends. Cells are copied in both layouts of the KV cache.

use super::{KvCells, Newcomer, PrefixCache, WORTHWHILE, without_part_of_tile};
use crate::backend::Backend;
use crate::memory_budget;
use crate::protocol::SequenceId;

/// Distance of a checkpoint from the end of a prompt, in tokens. Chat templates end prompts with
/// tokens that begin the answer, and some omit these when the chat continues.
const TEMPLATE_TAIL: u32 = 4;

impl PrefixCache {
    /// Returns true if sequences continue from checkpoints.
    pub(crate) fn has_checkpoints(&self) -> bool {
        self.is_on && self.by_checkpoints && self.saves
    }

    /// Asks a new sequence for the checkpoints of its prompt. Its first `known` tokens match
    /// another sequence.
    pub(super) fn ask_for_checkpoints(
        &self,
        newcomer: &Newcomer<'_>,
        known: u32,
        cells: &mut KvCells,
    ) {
        if !self.has_checkpoints() {
            return;
        }
        let end = (newcomer.tokens.len() as u32).saturating_sub(TEMPLATE_TAIL);
        let end = without_part_of_tile(newcomer.tokens, end);
        let last_turn = newcomer.last_turn.unwrap_or(0);
        let last_turn = without_part_of_tile(newcomer.tokens, last_turn.min(end));
        for at in [known.min(end), last_turn, end] {
            if at >= cells.computed + WORTHWHILE {
                cells.stop_at(at);
            }
        }
    }

    /// Makes a checkpoint of a running sequence if one was requested at its position. Called after
    /// a step has computed its next tokens.
    pub(crate) fn reached(
        &mut self,
        backend: &mut dyn Backend,
        id: SequenceId,
        cells: &mut KvCells,
    ) {
        if cells.pass_stops() && memory_budget::is_ample(0) {
            self.make_checkpoint(backend, id, cells);
        }
    }

    /// Saves the first `end` cells and the checkpoint of a sequence that is about to lose its slot,
    /// for others to continue from.
    pub(super) fn keep_for_checkpoints(
        &mut self,
        backend: &mut dyn Backend,
        id: SequenceId,
        cells: &KvCells,
        end: u32,
    ) {
        let Some(slot) = cells.slot.filter(|_| self.has_checkpoints()) else {
            return;
        };
        if !memory_budget::is_ample(0) {
            self.evict_to(self.tree.saved_bytes() / 2);
            self.drop_checkpoints_to(self.tree.checkpoint_bytes() / 2);
            return;
        }
        // A checkpoint is of the sequence's current position.
        if end == cells.computed && end >= self.tree.checkpoint_of(id, end) + WORTHWHILE {
            self.make_checkpoint(backend, id, cells);
        }
        // Cells behind the last checkpoint would be useless.
        let end = self.tree.checkpoint_of(id, end);
        let saved = self.tree.saved_of(id);
        if end > saved && self.saves {
            backend.remove_before(slot, saved);
            self.save(backend, id, slot, end);
        }
        self.evict_to(self.host_limit);
    }

    fn make_checkpoint(&mut self, backend: &mut dyn Backend, id: SequenceId, cells: &KvCells) {
        let Some(slot) = cells.slot.filter(|_| self.has_checkpoints()) else {
            return;
        };
        match backend.checkpoint(slot) {
            Ok(checkpoint) => {
                let bytes = checkpoint.byte_len();
                tracing::debug!(%id, at = cells.computed, bytes, "checkpoint");
                self.tree.keep(id, cells.computed, checkpoint);
                self.drop_checkpoints_to(self.checkpoint_limit);
            }
            Err(error) => self.stop_saving(&error),
        }
    }

    /// Drops the least recently used checkpoints until the rest takes at most this many bytes.
    pub(super) fn drop_checkpoints_to(&mut self, bytes: u64) {
        while self.tree.checkpoint_bytes() > bytes {
            self.tree.drop_checkpoint();
            self.counts.checkpoints.dropped += 1;
        }
    }
}
