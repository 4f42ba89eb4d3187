//! The prefix cache: what a sequence reuses from others when it is admitted, and what is kept of it
//! when it leaves.
//!
//! Cells of a sequence that lives are shared (unified KV cache) or copied (per-sequence KV cache);
//! what a sequence leaves behind goes to host memory and is copied back when another one begins
//! alike. While a sequence computes what a waiting one begins with, the waiting one is deferred, so
//! that many prompts that come at once and begin alike compute their beginning once.

use std::time::Instant;

use super::{CellBook, Held, Offer, PrefixTree, Progress, ShareGroup, WORTHWHILE};
use crate::backend::{Backend, Capacity, KvLayout, SaveError, Slot};
use crate::protocol::{SequenceId, Token};
use crate::room;
use crate::spec::LlmEngineSpec;

/// The KV cells of all sequences, and the cells that finished ones left.
#[derive(Debug)]
pub(crate) struct PrefixCache {
    tree: PrefixTree,
    book: CellBook,
    /// Cells the backend proved able to hold, at most all that it has.
    usable: u32,
    /// Whether sequences take anything over.
    is_on: bool,
    /// Most bytes of saved cells.
    host_limit: u64,
    /// Whether the backend saves and restores; false after it first refused.
    saves: bool,
    layout: KvLayout,
    queries: u64,
    hits: u64,
    evicted: u64,
}

/// What a sequence has in the KV cache.
#[derive(Debug, Default)]
pub(crate) struct KvCells {
    slot: Option<Slot>,
    computed: u32,
    held: Held,
}

impl KvCells {
    fn empty(slot: Slot) -> Self {
        Self {
            slot: Some(slot),
            ..Self::default()
        }
    }

    /// Where they are; a sequence that waits has no slot.
    pub(crate) fn slot(&self) -> Option<Slot> {
        self.slot
    }

    /// So many of the sequence's first tokens have theirs: none without a slot.
    pub(crate) fn computed(&self) -> u32 {
        self.computed
    }

    /// The backend has moved them.
    pub(crate) fn moved_to(&mut self, slot: Slot) {
        self.slot = Some(slot);
    }
}

/// A sequence that is about to be admitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newcomer<'a> {
    pub(crate) id: SequenceId,
    pub(crate) group: &'a ShareGroup,
    pub(crate) tokens: &'a [Token],
    /// The first tokens, whose cells may come from others.
    pub(crate) shareable: &'a [Token],
    /// Whether it was never admitted before.
    pub(crate) is_new: bool,
}

/// The sequences that live in the KV cache.
pub(crate) trait Residents {
    /// How far one of them is; nothing for one that is gone.
    fn progress(&self, id: SequenceId) -> Progress;

    /// What one of them has.
    fn cells(&self, id: SequenceId) -> &KvCells;
}

/// The prefix cache in numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    /// Cells that hold a token.
    pub(crate) used: u32,
    /// Prompt tokens that were looked up, each prompt once, and those of them that were found.
    pub(crate) queries: u64,
    pub(crate) hits: u64,
    /// Cells in host memory, and their bytes.
    pub(crate) saved_cells: u64,
    pub(crate) saved_bytes: u64,
    /// Cells dropped from there to keep its limit.
    pub(crate) evicted: u64,
}

impl PrefixCache {
    pub(crate) fn new(spec: &LlmEngineSpec, capacity: &Capacity) -> Self {
        let is_on = spec.prefix_caching && capacity.reuses_cells;
        if spec.prefix_caching && !capacity.reuses_cells {
            tracing::warn!(
                "the model's state is not one cell a token: every prompt is computed from its beginning"
            );
        }
        let host_limit = spec.prefix_cache_size.unwrap_or(capacity.host_cache_bytes);
        Self {
            tree: PrefixTree::default(),
            book: CellBook::default(),
            usable: capacity.total_cells,
            is_on,
            host_limit: if is_on { host_limit } else { 0 },
            saves: true,
            layout: capacity.layout,
            queries: 0,
            hits: 0,
            evicted: 0,
        }
    }

    /// Whether sequences take anything over from others.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            used: self.book.used(),
            queries: self.queries,
            hits: self.hits,
            saved_cells: self.tree.saved_cells(),
            saved_bytes: self.tree.saved_bytes(),
            evicted: self.evicted,
        }
    }

    /// Cells that no sequence has.
    pub(crate) fn free_cells(&self) -> u32 {
        self.usable.saturating_sub(self.book.used())
    }

    /// Cells that become free if a sequence gives up what it has.
    pub(crate) fn owned(&self, cells: &KvCells) -> u32 {
        self.book.owned(&cells.held)
    }

    /// A step has computed the next tokens of a sequence.
    pub(crate) fn grow(&mut self, cells: &mut KvCells, tokens: u32) {
        self.book.grow(&mut cells.held, tokens);
        cells.computed += tokens;
    }

    /// Gives up the cells of a sequence behind its first `kept`, which drafts that were not
    /// accepted have left.
    pub(crate) fn cut(&mut self, backend: &mut dyn Backend, cells: &mut KvCells, kept: u32) {
        if let Some(slot) = cells.slot
            && cells.computed > kept
        {
            backend.remove(slot, kept);
            self.book.shrink(&mut cells.held, cells.computed - kept);
            cells.computed = kept;
        }
    }

    /// The backend had too few cells for this batch: from now on, no more are planned with than it
    /// has shown to hold.
    pub(crate) fn ran_out(&mut self, batch: u32) {
        let tried = self.book.used() + batch;
        tracing::warn!(
            tried,
            usable = self.usable,
            "the KV cache is smaller than it reported"
        );
        self.usable = self.usable.min(tried - 1);
    }

    /// What a sequence that begins like this could take over; the engine is about to decide on it.
    pub(crate) fn offer(
        &mut self,
        group: &ShareGroup,
        tokens: &[Token],
        residents: &impl Residents,
    ) -> Offer {
        let found = self.tree.find(group, tokens, |id| residents.progress(id));
        Offer::of(&found, self.layout, self.saves)
    }

    /// How many tokens a prompt would take over if it were admitted now, and the new cells these
    /// would take.
    pub(crate) fn would_take_over(
        &self,
        group: &ShareGroup,
        prompt: &[Token],
        residents: &impl Residents,
    ) -> (u32, u32) {
        if !self.is_on {
            return (0, 0);
        }
        // The last token is computed in any case, as in `Sequence::shareable`.
        let shareable = &prompt[..prompt.len() - 1];
        let found = self
            .tree
            .look(group, shareable, |id| residents.progress(id));
        let offer = Offer::of(&found, self.layout, self.saves);
        (offer.tokens, offer.cells)
    }

    /// Gives a sequence that gets this slot what others have of its beginning. `room` cells are
    /// free for copies.
    pub(crate) fn admit(
        &mut self,
        backend: &mut dyn Backend,
        newcomer: &Newcomer<'_>,
        slot: Slot,
        room: u32,
        residents: &impl Residents,
    ) -> KvCells {
        let mut cells = KvCells::empty(slot);
        if !self.is_on {
            return cells;
        }
        let mut offer = self.offer(newcomer.group, newcomer.shareable, residents);
        if offer.cells > room {
            offer.tokens -= offer.cells;
            offer.cells = 0;
        }
        if offer.tokens > 0 {
            let donor = offer
                .live
                .map(|(id, tokens)| (id, residents.cells(id), tokens));
            match self.layout {
                KvLayout::Unified => {
                    self.take_from_pool(backend, newcomer, &mut cells, donor, offer.cells);
                }
                KvLayout::PerSequence => {
                    self.take_copy(backend, newcomer, &mut cells, donor, offer.tokens);
                }
            }
        }
        if newcomer.is_new {
            self.queries += newcomer.tokens.len() as u64;
            self.hits += u64::from(cells.computed);
        }
        self.tree
            .insert(newcomer.id, newcomer.group, newcomer.tokens);
        cells
    }

    /// Copies saved cells in behind those of a live sequence, which become cells of both.
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
        let restored = copied > 0 && self.restore(backend, newcomer, to, live);
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

    /// Copies saved cells in, after saving those of a live sequence if it has more.
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
        if self.restore(backend, newcomer, to, 0) {
            self.grow(cells, tokens);
        }
        self.evict_to(self.host_limit);
    }

    /// Copies into the newcomer's slot all its saved cells from a position on.
    fn restore(
        &mut self,
        backend: &mut dyn Backend,
        newcomer: &Newcomer<'_>,
        slot: Slot,
        from: u32,
    ) -> bool {
        let started = Instant::now();
        let parts = self.tree.parts(newcomer.group, newcomer.shareable, from);
        match backend.restore(slot, from, &parts) {
            Ok(()) => {
                let cells: usize = parts.iter().map(|part| part.cells.len()).sum();
                tracing::debug!(id = %newcomer.id, cells, took = ?started.elapsed(), "restored");
                true
            }
            Err(error) => {
                self.give_up(&error);
                false
            }
        }
    }

    /// The text of a live sequence has gone on.
    pub(crate) fn extend(&mut self, id: SequenceId, tokens: &[Token]) {
        self.tree.extend(id, tokens);
    }

    /// Saves the cells of a sequence that is about to lose its slot, as far as they are not saved
    /// yet.
    pub(crate) fn keep(&mut self, backend: &mut dyn Backend, id: SequenceId, cells: &KvCells) {
        let Some(slot) = cells.slot.filter(|_| self.host_limit > 0) else {
            return;
        };
        let saved = self.tree.saved_of(id);
        if cells.computed < saved + WORTHWHILE {
            return;
        }
        if !room::is_ample(0) {
            self.evict_to(self.tree.saved_bytes() / 2);
            return;
        }
        backend.remove_before(slot, saved);
        self.save(backend, id, slot, cells.computed);
        self.evict_to(self.host_limit);
    }

    /// Takes all cells away from a sequence. Returns the slot that it had.
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
        slot
    }

    /// All sequences are gone.
    pub(crate) fn release_all(&mut self) {
        self.book = CellBook::default();
    }

    /// Saves what is not saved yet of a live sequence's first cells. Says whether the backend
    /// could.
    fn save(&mut self, backend: &mut dyn Backend, id: SequenceId, slot: Slot, end: u32) -> bool {
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
                self.give_up(&error);
                false
            }
        }
    }

    /// Remembers that the backend does not save, after saying so.
    fn give_up(&mut self, error: &SaveError) {
        tracing::warn!(%error, "finished prompts are not kept: the backend cannot copy their cells");
        self.saves = false;
        self.host_limit = 0;
    }

    /// Drops what was not used for longest until the rest takes no more than this.
    pub(crate) fn evict_to(&mut self, bytes: u64) {
        while self.tree.saved_bytes() > bytes {
            self.evicted += u64::from(self.tree.evict());
        }
    }
}
