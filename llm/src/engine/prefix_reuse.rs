//! Prefix sharing: what a sequence reuses from others when it is admitted, and what is kept of it when it leaves.
//!
//! Cells of a sequence that lives are shared (one pool) or copied (a stream each); what a sequence leaves behind goes to host
//! memory and is copied back when another one begins alike. While a sequence computes what a waiting one begins with, the waiting
//! one is deferred, so that many prompts that come at once and begin alike compute their beginning once.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::step::Core;
use crate::backend::{Capacity, KvLayout, SaveError, Slot};
use crate::cache::{Found, PrefixTree, Progress, ShareGroup};
use crate::protocol::{SequenceId, Token};
use crate::room;
use crate::schedule::Row;
use crate::sequence::Sequence;
use crate::spec::EngineSpec;

/// Fewer tokens are not worth the bookkeeping of sharing, saving or waiting for them.
const WORTHWHILE: u32 = 16;
/// A sequence that took part in none of that many steps is not waited for.
const PATIENCE_STEPS: u64 = 16;

/// The engine's prefix cache: the tree and what bounds it.
#[derive(Debug)]
pub(super) struct Sharing {
    pub(super) tree: PrefixTree,
    /// Whether sequences take anything over.
    is_on: bool,
    /// Most bytes of saved cells.
    host_limit: u64,
    /// Whether the backend saves and restores; false after it first refused.
    saves: bool,
    layout: KvLayout,
}

/// What a sequence could take over if it were admitted now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Offer {
    /// Tokens in all.
    tokens: u32,
    /// Of these, the first ones come from this live sequence.
    live: Option<(SequenceId, u32)>,
    /// New cells they take.
    cells: u32,
    /// Whether much more will be there soon.
    grows: bool,
}

impl Sharing {
    pub(super) fn new(spec: &EngineSpec, capacity: &Capacity) -> Self {
        let is_on = spec.prefix_caching && capacity.reuses_cells;
        if spec.prefix_caching && !capacity.reuses_cells {
            tracing::warn!(
                "the model's state is not one cell a token: every prompt is computed from its beginning"
            );
        }
        let host_limit = spec.prefix_cache_size.unwrap_or(capacity.host_cache_bytes);
        Self {
            tree: PrefixTree::default(),
            is_on,
            host_limit: if is_on { host_limit } else { 0 },
            saves: true,
            layout: capacity.layout,
        }
    }

    /// What is worth taking over of what was found.
    fn offer(&self, found: &Found) -> Offer {
        let saved = if self.saves { found.saved } else { 0 };
        let live_tokens = found.live.map_or(0, |(_, tokens)| tokens);
        let mut offer = match self.layout {
            // What is shared takes no cells: copies only continue it.
            KvLayout::Pool => {
                let live = found.live.filter(|(_, tokens)| *tokens >= WORTHWHILE);
                let shared = live.map_or(0, |(_, tokens)| tokens);
                let copied = saved.saturating_sub(shared);
                let cells = if copied >= WORTHWHILE { copied } else { 0 };
                Offer {
                    tokens: shared + cells,
                    live,
                    cells,
                    grows: false,
                }
            }
            KvLayout::Streams => {
                let is_ahead = self.saves && live_tokens >= saved + WORTHWHILE;
                let tokens = if is_ahead { live_tokens } else { saved };
                let tokens = if tokens >= WORTHWHILE { tokens } else { 0 };
                Offer {
                    tokens,
                    live: found.live.filter(|_| is_ahead),
                    cells: tokens,
                    grows: false,
                }
            }
        };
        let can_share = self.saves || self.layout == KvLayout::Pool;
        offer.grows = can_share && found.coming >= offer.tokens + WORTHWHILE;
        offer
    }

    /// Remembers that the backend does not save, after saying so.
    fn give_up(&mut self, error: &SaveError) {
        tracing::warn!(%error, "finished prompts are not kept: the backend cannot copy their cells");
        self.saves = false;
        self.host_limit = 0;
    }
}

fn progress(running: &[Sequence], step: u64, id: SequenceId) -> Progress {
    match running.binary_search_by_key(&id, |sequence| sequence.id) {
        Ok(index) => Progress {
            computed: running[index].computed,
            advances: running[index].has_credit()
                && step - running[index].last_step <= PATIENCE_STEPS,
        },
        Err(_) => Progress {
            computed: 0,
            advances: false,
        },
    }
}

impl Core<'_> {
    /// Completes the rows of waiting sequences with what they could take over.
    pub(super) fn offer_prefixes(&mut self) {
        // Without a free place, only a request that has none may get one.
        let is_full =
            self.free_slots.is_empty() && self.running_rows.iter().all(|row| row.turn == 0);
        if !self.sharing.is_on || is_full {
            return;
        }
        for row in &mut self.waiting_rows {
            let Ok(index) = self.waiting.binary_search_by_key(&row.id, |other| other.id) else {
                continue;
            };
            let sequence = &self.waiting[index];
            let found = self
                .sharing
                .tree
                .find(&sequence.group, sequence.shareable(), |id| {
                    progress(&self.running, self.step, id)
                });
            let offer = self.sharing.offer(&found);
            row.computed = offer.tokens;
            row.owned = offer.cells;
            row.deferred = offer.grows;
        }
    }

    /// How many tokens a prompt would take over if it were admitted now, and the new cells these would take.
    pub(super) fn would_take_over(&self, group: &ShareGroup, tokens: &[Token]) -> (u32, u32) {
        if !self.sharing.is_on {
            return (0, 0);
        }
        // The last token is computed in any case, as in `Sequence::shareable`.
        let shareable = &tokens[..tokens.len() - 1];
        let found = self.sharing.tree.look(group, shareable, |id| {
            progress(&self.running, self.step, id)
        });
        let offer = self.sharing.offer(&found);
        (offer.tokens, offer.cells)
    }

    /// Defers those of the planned admissions that begin like another one of them, so that only one computes what they share.
    /// Says whether there were any, and so whether the plan has to be made again.
    pub(super) fn defer_followers(&mut self) -> bool {
        if !self.sharing.is_on || self.plan.admit.len() < 2 {
            return false;
        }
        let waiting = |id: &SequenceId| -> &Sequence {
            let index = self.waiting.binary_search_by_key(id, |other| other.id);
            &self.waiting[index.expect("only waiting sequences are admitted")]
        };
        let mut leaders: Vec<&Sequence> = Vec::with_capacity(self.plan.admit.len());
        let mut deferred = false;
        for id in &self.plan.admit {
            let sequence = waiting(id);
            let Some(row) = row_of(&mut self.waiting_rows, *id) else {
                continue;
            };
            let tokens = sequence.shareable();
            let follows = leaders.iter().any(|leader| {
                leader.group == sequence.group
                    && common(&leader.tokens, tokens) >= row.computed + WORTHWHILE
            });
            if follows {
                row.deferred = true;
                deferred = true;
            } else {
                leaders.push(sequence);
            }
        }
        deferred
    }

    /// Gives a sequence that just got its slot what others have of its beginning. `room` cells are free for copies.
    pub(super) fn take_over(&mut self, sequence: &mut Sequence, room: u32) {
        if !self.sharing.is_on {
            return;
        }
        let found = self
            .sharing
            .tree
            .find(&sequence.group, sequence.shareable(), |id| {
                progress(&self.running, self.step, id)
            });
        let mut offer = self.sharing.offer(&found);
        if offer.cells > room {
            offer.tokens -= offer.cells;
            offer.cells = 0;
        }
        if offer.tokens > 0 {
            match self.sharing.layout {
                KvLayout::Pool => self.take_from_pool(sequence, offer),
                KvLayout::Streams => self.take_copy(sequence, offer),
            }
        }
        let first_time = !sequence.was_admitted;
        if first_time {
            let cached = sequence.count_cached();
            let tokens = sequence.tokens.len() as u64;
            self.shared
                .prefix_queries
                .fetch_add(tokens, Ordering::Relaxed);
            self.shared
                .prefix_hits
                .fetch_add(u64::from(cached), Ordering::Relaxed);
        }
        self.sharing
            .tree
            .insert(sequence.id, &sequence.group, &sequence.tokens);
    }

    /// Copies saved cells in behind those of a live sequence, which become cells of both.
    fn take_from_pool(&mut self, sequence: &mut Sequence, offer: Offer) {
        let live = offer.live.map_or(0, |(_, tokens)| tokens);
        let restored = offer.cells > 0 && self.restore(sequence, live);
        if let Some((donor, tokens)) = offer.live {
            let index = self.running_index(donor).expect("the donor is running");
            let donor = &self.running[index];
            let from = donor.slot.expect("running sequences have a slot");
            let to = sequence.slot.expect("the sequence was admitted");
            self.backend.share(from, to, tokens);
            sequence.held = self.cells.share(&donor.held, tokens);
            sequence.computed = tokens;
        }
        if restored {
            self.cells.grow(&mut sequence.held, offer.cells);
            sequence.computed = offer.tokens;
        }
    }

    /// Copies saved cells in, after saving those of a live sequence if it has more.
    fn take_copy(&mut self, sequence: &mut Sequence, offer: Offer) {
        if let Some((donor, tokens)) = offer.live {
            let index = self.running_index(donor).expect("the donor is running");
            let from = self.running[index].slot;
            let from = from.expect("running sequences have a slot");
            if !self.save(donor, from, tokens) {
                return;
            }
        }
        if self.restore(sequence, 0) {
            self.cells.grow(&mut sequence.held, offer.tokens);
            sequence.computed = offer.tokens;
        }
        self.keep_limit();
    }

    /// Copies into the sequence's slot all its saved cells from a position on.
    fn restore(&mut self, sequence: &Sequence, from: u32) -> bool {
        let slot = sequence.slot.expect("the sequence was admitted");
        let tokens = sequence.shareable();
        let started = Instant::now();
        let parts = self.sharing.tree.parts(&sequence.group, tokens, from);
        match self.backend.restore(slot, from, &parts) {
            Ok(()) => {
                let cells: usize = parts.iter().map(|part| part.cells.len()).sum();
                tracing::debug!(id = %sequence.id, cells, took = ?started.elapsed(), "restored");
                true
            }
            Err(error) => {
                self.sharing.give_up(&error);
                false
            }
        }
    }

    /// Saves the cells of a sequence that is about to lose its slot, as far as they are not saved yet.
    pub(super) fn keep(&mut self, sequence: &Sequence) {
        let Some(slot) = sequence.slot.filter(|_| self.sharing.host_limit > 0) else {
            return;
        };
        let saved = self.sharing.tree.saved_of(sequence.id);
        if sequence.computed < saved + WORTHWHILE {
            return;
        }
        if !room::is_ample(0) {
            self.evict_to(self.sharing.tree.saved_bytes() / 2);
            return;
        }
        self.backend.remove_before(slot, saved);
        self.save(sequence.id, slot, sequence.computed);
        self.keep_limit();
    }

    /// Saves what is not saved yet of a live sequence's first cells. Says whether the backend could.
    fn save(&mut self, id: SequenceId, slot: Slot, end: u32) -> bool {
        let started = Instant::now();
        let pieces = self.sharing.tree.pieces(id, end);
        match self.backend.save(slot, &pieces) {
            Ok(cells) => {
                self.sharing.tree.save(id, cells);
                let cells: usize = pieces.iter().map(ExactSizeIterator::len).sum();
                tracing::debug!(%id, cells, took = ?started.elapsed(), "saved");
                true
            }
            Err(error) => {
                self.sharing.give_up(&error);
                false
            }
        }
    }

    fn keep_limit(&mut self) {
        self.evict_to(self.sharing.host_limit);
    }

    /// Drops what was not used for longest until the rest takes no more than this.
    pub(super) fn evict_to(&mut self, bytes: u64) {
        while self.sharing.tree.saved_bytes() > bytes {
            let evicted = self.sharing.tree.evict();
            self.shared
                .prefix_evicted
                .fetch_add(u64::from(evicted), Ordering::Relaxed);
        }
    }
}

fn row_of(rows: &mut [Row], id: SequenceId) -> Option<&mut Row> {
    rows.iter_mut().find(|row| row.id == id)
}

fn common(one: &[Token], other: &[Token]) -> u32 {
    let pairs = one.iter().zip(other);
    pairs.take_while(|(one, other)| one == other).count() as u32
}
