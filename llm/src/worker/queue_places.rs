//! Places of an engine's queue. They are counted, so that the queue is bounded, and can be reserved
//! before the work that leads to a submission.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;

use crate::lock::lock;
use crate::measure::Counter;
use crate::protocol::{SubmitError, Tenant};

/// The places of a queue. `taken` enforces the bound, and changes only by atomic read-modify-write.
#[derive(Debug, Default)]
pub(crate) struct Places {
    taken: AtomicU32,
    /// Number of places of each tenant that has any, by the tenant's number.
    tenants: Mutex<FxHashMap<u64, u32>>,
    /// Number of places of requests that make their prompt.
    preparing: AtomicU32,
    /// Number of prompt tokens of the sequences that have a place.
    tokens: AtomicU64,
    /// Number of requests that got no place.
    pub(crate) refused: Counter,
}

/// A place in an engine's queue. Dropping it frees the place, unless it was handed on to a
/// sequence.
#[derive(Debug)]
pub struct QueuePlace {
    places: Arc<Places>,
    tenant: Option<Tenant>,
    is_held: AtomicBool,
}

impl Places {
    /// Takes one of `limit` places. After it, a tenant has at most [`places`](Tenant::places) for
    /// each place that is left free, so that a few tenants cannot fill the queue.
    ///
    /// # Errors
    /// [`SubmitError::QueueFull`] if no place is free, [`SubmitError::ShareTaken`] if the tenant has
    /// used its share.
    pub(crate) fn enter(&self, limit: u32, tenant: Option<Tenant>) -> Result<(), SubmitError> {
        let full = |taken: u32| SubmitError::QueueFull {
            waiting: taken as usize,
            limit: limit as usize,
        };
        let take = |own: u32, each: u32| {
            let has_share = |free: u32| own < free.saturating_mul(each);
            let fits =
                |taken: u32| (taken < limit && has_share(limit - taken)).then_some(taken + 1);
            self.taken
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
        };
        let entered = match tenant {
            None => take(0, 1).map_err(full),
            Some(tenant) => {
                let mut tenants = lock(&self.tenants);
                let own = tenants.get(&tenant.number).copied().unwrap_or_default();
                take(own, tenant.places)
                    .inspect(|_| *tenants.entry(tenant.number).or_default() += 1)
                    .map_err(|taken| match own as usize {
                        waiting if waiting > 0 && taken < limit => {
                            SubmitError::ShareTaken { waiting }
                        }
                        _ => full(taken),
                    })
            }
        };
        entered.map(drop).inspect_err(|_| self.refused.add(1))
    }

    /// Takes a place beyond all limits.
    pub(crate) fn follow(&self, tenant: Option<Tenant>) {
        if let Some(tenant) = tenant {
            *lock(&self.tenants).entry(tenant.number).or_default() += 1;
        }
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes one of `limit` places for a request that makes its prompt.
    ///
    /// # Errors
    /// Those of [`enter`](Self::enter).
    pub(crate) fn reserve(
        self: &Arc<Self>,
        limit: u32,
        tenant: Option<Tenant>,
    ) -> Result<QueuePlace, SubmitError> {
        self.enter(limit, tenant)?;
        self.preparing.fetch_add(1, Ordering::Relaxed);
        Ok(QueuePlace {
            places: Arc::clone(self),
            tenant,
            is_held: AtomicBool::new(true),
        })
    }

    /// Frees one place of a tenant.
    pub(crate) fn leave(&self, tenant: Option<Tenant>) {
        if let Some(tenant) = tenant {
            let mut tenants = lock(&self.tenants);
            if let Some(own) = tenants.get_mut(&tenant.number) {
                *own -= 1;
                if *own == 0 {
                    tenants.remove(&tenant.number);
                }
            }
        }
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }

    /// Adds the prompt tokens of a sequence that has a place. The sum must not exceed `limit`; if
    /// no prompt waits, one of any length is accepted.
    ///
    /// # Errors
    /// [`SubmitError::QueuedTokens`] if there are too many.
    pub(crate) fn add_tokens(&self, tokens: u64, limit: Option<u64>) -> Result<(), SubmitError> {
        let fits = |waiting: u64| {
            let sum = waiting + tokens;
            (waiting == 0 || limit.is_none_or(|limit| sum <= limit)).then_some(sum)
        };
        let added = self
            .tokens
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        let limit = limit.unwrap_or_default();
        let full = |waiting| SubmitError::QueuedTokens { waiting, limit };
        added.map(drop).map_err(full)
    }

    /// Subtracts the tokens of a sequence.
    pub(crate) fn remove_tokens(&self, tokens: u64) {
        self.tokens.fetch_sub(tokens, Ordering::Relaxed);
    }

    /// Number of prompt tokens of the sequences that have a place.
    pub(crate) fn tokens(&self) -> u64 {
        self.tokens.load(Ordering::Relaxed)
    }

    /// Number of places that are taken.
    pub(crate) fn taken(&self) -> u32 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Number of places of requests that make their prompt.
    pub(crate) fn preparing(&self) -> u32 {
        self.preparing.load(Ordering::Relaxed)
    }
}

impl QueuePlace {
    /// Hands the place on to a sequence. Returns false if it belongs to another queue, or was
    /// handed on before.
    pub(crate) fn hand_on(&self, to: &Arc<Places>) -> bool {
        let is_held = Arc::ptr_eq(&self.places, to) && self.is_held.swap(false, Ordering::Relaxed);
        if is_held {
            self.places.preparing.fetch_sub(1, Ordering::Relaxed);
        }
        is_held
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        if self.is_held.swap(false, Ordering::Relaxed) {
            self.places.preparing.fetch_sub(1, Ordering::Relaxed);
            self.places.leave(self.tenant);
        }
    }
}
