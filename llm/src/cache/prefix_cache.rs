//! The prefix cache: reuses cells of other sequences on admission, and keeps cells of sequences
//! that end.
//!
//! Cells of a live sequence are shared (unified KV cache) or copied (per-sequence KV cache). Cells
//! of an ended sequence go to host memory, and are copied back for another sequence with the same
//! prefix. If a running sequence is about to compute the prefix of a waiting one, the waiting one
//! is deferred. So many prompts with a common prefix that arrive at once compute it only once. Some
//! models need more than cells for that: see [`checkpoints`](super::checkpoints).

use std::ops::Range;
use std::time::Instant;

use super::{
    CellBook, CheckpointStatus, KvCells, Newcomer, Offer, PrefixMatch, PrefixStatus, PrefixTree,
    Residents, ShareGroup, WORTHWHILE,
};
use crate::backend::{Backend, Capacity, KvLayout, Reuse, SaveError, Slot};
use crate::memory_budget;
use crate::protocol::{SequenceId, Token};
use crate::settings::LlmEngineSpec;

/// Accounts of the KV cells of all sequences, and the saved cells of finished ones.
#[derive(Debug)]
pub(crate) struct PrefixCache {
    pub(super) tree: PrefixTree,
    book: CellBook,
    /// Number of cells that the backend proved able to hold, at most all that it has.
    usable: u32,
    /// True if sequences reuse prefixes of others.
    pub(crate) is_on: bool,
    /// True if reuse needs checkpoints.
    pub(super) by_checkpoints: bool,
    /// Maximum size of saved cells, in bytes.
    pub(super) host_limit: u64,
    /// Maximum size of checkpoints, in bytes.
    pub(super) checkpoint_limit: u64,
    /// True if the backend saves and restores cells; false after its first refusal.
    pub(super) saves: bool,
    layout: KvLayout,
    /// Counts since the engine was loaded. What is in host memory now is not in them.
    pub(super) counts: PrefixStatus,
}

impl PrefixCache {
    pub(crate) fn new(spec: &LlmEngineSpec, capacity: &Capacity) -> Self {
        let checkpoint_size = spec.checkpoint_cache_size;
        let checkpoint_limit = checkpoint_size.unwrap_or(capacity.host_cache_bytes);
        let can_reuse = match capacity.reuse {
            Reuse::Never => false,
            Reuse::Cells => true,
            Reuse::Checkpoints => checkpoint_limit > 0,
        };
        if spec.prefix_caching && capacity.reuse == Reuse::Never {
            tracing::warn!(
                "the sequence state of this model has an unknown form: no prompts are reused"
            );
        }
        let is_on = spec.prefix_caching && can_reuse;
        let host_limit = spec.prefix_cache_size.unwrap_or(capacity.host_cache_bytes);
        Self {
            tree: PrefixTree::default(),
            book: CellBook::default(),
            usable: capacity.total_cells,
            is_on,
            by_checkpoints: capacity.reuse == Reuse::Checkpoints,
            host_limit: if is_on { host_limit } else { 0 },
            checkpoint_limit,
            saves: true,
            layout: capacity.layout,
            counts: PrefixStatus::default(),
        }
    }

    pub(crate) fn status(&self) -> PrefixStatus {
        PrefixStatus {
            tokens: self.tree.saved_cells(),
            bytes: self.tree.saved_bytes(),
            checkpoints: CheckpointStatus {
                count: self.tree.checkpoints().into(),
                bytes: self.tree.checkpoint_bytes(),
                ..self.counts.checkpoints
            },
            ..self.counts
        }
    }

    /// Number of cells that hold a token, shared ones counted once.
    pub(crate) fn used_cells(&self) -> u32 {
        self.book.used()
    }

    /// Number of cells that no sequence has.
    pub(crate) fn free_cells(&self) -> u32 {
        self.usable.saturating_sub(self.book.used())
    }

    /// Number of cells that become free if a sequence frees its cells.
    pub(crate) fn owned(&self, cells: &KvCells) -> u32 {
        self.book.owned(&cells.held)
    }

    /// Adds the cells of tokens that a step has computed to a sequence.
    pub(crate) fn grow(&mut self, cells: &mut KvCells, tokens: u32) {
        self.book.grow(&mut cells.held, tokens);
        cells.computed += tokens;
    }

    /// Frees the cells of a sequence behind its first `kept`: those of drafts that were not
    /// accepted.
    pub(crate) fn cut(&mut self, backend: &mut dyn Backend, cells: &mut KvCells, kept: u32) {
        if let Some(slot) = cells.slot
            && cells.computed > kept
        {
            backend.remove(slot, kept);
            self.book.shrink(&mut cells.held, cells.computed - kept);
            cells.computed = kept;
        }
    }

    /// Lowers the number of usable cells after the backend had too few for this batch.
    pub(crate) fn lower_usable_cells(&mut self, batch: u32) {
        let tried = self.book.used() + batch;
        tracing::warn!(
            tried,
            usable = self.usable,
            "the KV cache is smaller than it reported"
        );
        self.usable = self.usable.min(tried - 1);
    }

    /// Looks up the reusable prefix of a waiting sequence, and marks it as used.
    pub(crate) fn offer(
        &mut self,
        group: &ShareGroup,
        tokens: &[Token],
        residents: &impl Residents,
    ) -> Offer {
        let found = self.tree.find(group, tokens, |id| residents.progress(id));
        self.worth(&found, tokens)
    }

    /// Returns the part of a match that is worth reusing.
    fn worth(&self, found: &PrefixMatch, tokens: &[Token]) -> Offer {
        if !self.by_checkpoints {
            Offer::from_match(&found.to_whole_tiles(tokens), self.layout, self.saves)
        } else if self.saves {
            Offer::from_checkpoints(found)
        } else {
            Offer::default()
        }
    }

    /// Looks up the prefix that a prompt would reuse if it were admitted now.
    pub(crate) fn preview(
        &self,
        group: &ShareGroup,
        prompt: &[Token],
        residents: &impl Residents,
    ) -> Offer {
        if !self.is_on {
            return Offer::default();
        }
        // The last token is always computed, as in `Sequence::shareable`.
        let shareable = &prompt[..prompt.len() - 1];
        let found = self
            .tree
            .look(group, shareable, |id| residents.progress(id));
        self.worth(&found, shareable)
    }

    /// Admits a sequence to a slot, with the reusable cells of its prefix. `room` cells are free
    /// for copies.
    pub(crate) fn admit(
        &mut self,
        backend: &mut dyn Backend,
        newcomer: &Newcomer<'_>,
        slot: Slot,
        room: u32,
        residents: &impl Residents,
    ) -> KvCells {
        let mut cells = KvCells {
            slot: Some(slot),
            stops: newcomer.stops.clone(),
            ..KvCells::default()
        };
        if !self.is_on {
            return cells;
        }
        let (group, tokens) = (newcomer.group, newcomer.shareable);
        let found = self.tree.find(group, tokens, |id| residents.progress(id));
        let mut offer = self.worth(&found, tokens);
        if offer.cells > room {
            offer.tokens -= offer.cells;
            offer.cells = 0;
        }
        if offer.tokens > 0 {
            let donor = offer
                .live
                .map(|(id, tokens)| (id, residents.cells(id), tokens));
            match self.layout {
                KvLayout::Unified if !self.by_checkpoints => {
                    self.take_from_pool(backend, newcomer, &mut cells, donor, offer.cells);
                }
                KvLayout::Unified | KvLayout::PerSequence => {
                    self.take_copy(backend, newcomer, &mut cells, donor, offer.tokens);
                }
            }
        }
        if newcomer.is_new {
            self.counts.queries += newcomer.tokens.len() as u64;
            self.counts.hits += u64::from(cells.computed);
        }
        self.tree
            .insert(newcomer.id, newcomer.group, newcomer.tokens);
        self.ask_for_checkpoints(newcomer, found.known, &mut cells);
        cells
    }

    /// Shares the cells of a live sequence, and restores saved cells behind them.
    fn take_from_pool(
        &mut self,
        backend: &mut dyn Backend,
        newcomer: &Newcomer<'_>,
        cells: &mut KvCells,
        donor: Option<(SequenceId, &KvCells, u32)>,
        copied: u32,
    ) {
        let to = cells.slot.expect("the sequence was admitted");
        let live = donor.map_or(0, |(_, _, tokens)| tokens);
        let restored = copied > 0 && self.restore(backend, newcomer, to, live..live + copied);
        if let Some((_, donor, tokens)) = donor {
            let from = donor.slot.expect("running sequences have a slot");
            backend.share(from, to, tokens);
            cells.held = self.book.share(&donor.held, tokens);
            cells.computed = tokens;
        }
        if restored {
            self.grow(cells, copied);
        }
    }

    /// Restores saved cells, after saving the cells of a live sequence that has more of them.
    fn take_copy(
        &mut self,
        backend: &mut dyn Backend,
        newcomer: &Newcomer<'_>,
        cells: &mut KvCells,
        donor: Option<(SequenceId, &KvCells, u32)>,
        tokens: u32,
    ) {
        if let Some((id, donor, tokens)) = donor {
            let from = donor.slot.expect("running sequences have a slot");
            if !self.save(backend, id, from, tokens) {
                return;
            }
        }
        let to = cells.slot.expect("the sequence was admitted");
        if self.restore(backend, newcomer, to, 0..tokens) {
            self.grow(cells, tokens);
        }
        self.evict_to(self.host_limit);
    }

    /// Restores saved cells in the new sequence's slot, and the checkpoint behind them if one is
    /// needed. Returns false if the backend refuses.
    fn restore(
        &mut self,
        backend: &mut dyn Backend,
        newcomer: &Newcomer<'_>,
        slot: Slot,
        cells: Range<u32>,
    ) -> bool {
        let started = Instant::now();
        let group = newcomer.group;
        let tokens = &newcomer.shareable[..cells.end as usize];
        let parts = self.tree.parts(group, tokens, cells.start);
        let checkpoint = self.tree.checkpoint(group, tokens);
        match backend.restore(slot, cells.start, &parts, checkpoint) {
            Ok(()) => {
                let cells = cells.len();
                tracing::debug!(id = %newcomer.id, cells, took = ?started.elapsed(), "restored");
                if self.by_checkpoints {
                    self.tree.used(group, tokens);
                    self.counts.checkpoints.hits += 1;
                }
                true
            }
            Err(error) => {
                self.stop_saving(&error);
                false
            }
        }
    }

    /// Adds the new tokens of a live sequence to the tree.
    pub(crate) fn extend(&mut self, id: SequenceId, tokens: &[Token]) {
        self.tree.extend(id, tokens);
    }

    /// Saves the first `end` cells of a sequence that is about to lose its slot, except those that
    /// are saved already.
    pub(crate) fn keep(
        &mut self,
        backend: &mut dyn Backend,
        id: SequenceId,
        cells: &KvCells,
        end: u32,
    ) {
        let Some(slot) = cells.slot.filter(|_| self.host_limit > 0) else {
            return;
        };
        if self.by_checkpoints {
            self.keep_for_checkpoints(backend, id, cells, end);
            return;
        }
        let saved = self.tree.saved_of(id);
        if end < saved + WORTHWHILE {
            return;
        }
        if !memory_budget::is_ample(0) {
            self.evict_to(self.tree.saved_bytes() / 2);
            return;
        }
        backend.remove_before(slot, saved);
        self.save(backend, id, slot, end);
        self.evict_to(self.host_limit);
    }

    /// Frees all cells of a sequence. Returns its former slot.
    pub(crate) fn release(
        &mut self,
        backend: &mut dyn Backend,
        id: SequenceId,
        cells: &mut KvCells,
    ) -> Option<Slot> {
        let slot = cells.slot.take();
        if let Some(slot) = slot {
            backend.remove(slot, 0);
        }
        self.tree.remove(id);
        self.book.release(&mut cells.held);
        cells.computed = 0;
        cells.stops.clear();
        slot
    }

    /// Forgets the cells of all sequences, after the backend has cleared them.
    pub(crate) fn release_all(&mut self) {
        self.book = CellBook::default();
    }

    /// Saves the first `end` cells of a live sequence, except those that are saved already. Returns
    /// false if the backend refuses.
    pub(super) fn save(
        &mut self,
        backend: &mut dyn Backend,
        id: SequenceId,
        slot: Slot,
        end: u32,
    ) -> bool {
        let started = Instant::now();
        let pieces = self.tree.pieces(id, end);
        match backend.save(slot, &pieces) {
            Ok(cells) => {
                self.tree.save(id, cells);
                let cells: usize = pieces.iter().map(ExactSizeIterator::len).sum();
                tracing::debug!(%id, cells, took = ?started.elapsed(), "saved");
                true
            }
            Err(error) => {
                self.stop_saving(&error);
                false
            }
        }
    }

    /// Stops saving for good, with a warning.
    pub(super) fn stop_saving(&mut self, error: &SaveError) {
        tracing::warn!(%error, "finished prompts are not kept: the backend cannot copy their cells");
        self.saves = false;
        self.host_limit = 0;
    }

    /// Drops the least recently used cells until the rest takes at most this many bytes.
    pub(super) fn evict_to(&mut self, bytes: u64) {
        while self.tree.saved_bytes() > bytes {
            self.counts.evicted += self.tree.evict();
        }
    }

    /// Drops everything in host memory.
    pub(crate) fn shrink(&mut self) {
        self.evict_to(0);
        self.drop_checkpoints_to(0);
    }
}
