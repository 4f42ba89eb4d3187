//! Prefixes of models whose state is not one cell a token: they are reused up to a checkpoint.
//!
//! Only a sequence that is at a position can make a checkpoint there. It stops for one where its
//! prompt diverges from known prefixes, where a waiting sequence diverges from it, where the last
//! turn of its prompt begins, and a little before the end of its prompt; and it makes one when it
//! ends. Cells are copied in both layouts of the KV cache.

use super::{KvCells, Newcomer, PrefixCache, WORTHWHILE, without_part_of_tile};
use crate::backend::Backend;
use crate::protocol::SequenceId;
use crate::room;

/// A checkpoint is made so many tokens before the end of a prompt. Chat templates end prompts with
/// tokens that begin the answer, and some leave these out when the chat goes on.
const TEMPLATE_TAIL: u32 = 4;

impl PrefixCache {
    /// Whether sequences go on from checkpoints.
    pub(crate) fn has_checkpoints(&self) -> bool {
        self.is_on && self.by_checkpoints && self.saves
    }

    /// Asks a newcomer for the checkpoints of its prompt, which begins with so many tokens like
    /// another one.
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

    /// A step has computed the next tokens of a live sequence: makes a checkpoint if it is where
    /// one was asked for.
    pub(crate) fn reached(
        &mut self,
        backend: &mut dyn Backend,
        id: SequenceId,
        cells: &mut KvCells,
    ) {
        if cells.pass_stops() && room::is_ample(0) {
            self.make_checkpoint(backend, id, cells);
        }
    }

    /// Keeps of a sequence that is about to lose its slot what others can go on from.
    pub(super) fn keep_for_checkpoints(
        &mut self,
        backend: &mut dyn Backend,
        id: SequenceId,
        cells: &KvCells,
    ) {
        let Some(slot) = cells.slot.filter(|_| self.has_checkpoints()) else {
            return;
        };
        if !room::is_ample(0) {
            self.evict_to(self.tree.saved_bytes() / 2);
            self.drop_checkpoints_to(self.tree.checkpoint_bytes() / 2);
            return;
        }
        if cells.computed >= self.tree.checkpoint_of(id, cells.computed) + WORTHWHILE {
            self.make_checkpoint(backend, id, cells);
        }
        // Cells without a checkpoint behind them would be of no use.
        let end = self.tree.checkpoint_of(id, cells.computed);
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
            Err(error) => self.give_up(&error),
        }
    }

    /// Drops checkpoints that were not used for longest until the rest takes no more than this.
    pub(super) fn drop_checkpoints_to(&mut self, bytes: u64) {
        while self.tree.checkpoint_bytes() > bytes {
            self.tree.drop_checkpoint();
            self.checkpoints_dropped += 1;
        }
    }
}
