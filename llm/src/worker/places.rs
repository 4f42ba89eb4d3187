//! The places of an engine's queue: counted, so that the queue is bounded, and to be had before the
//! work that leads to a submission.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use crate::protocol::Tenant;

/// The places of a queue. `taken` is its bound, and only changed by atomic read-modify-write.
#[derive(Debug, Default)]
pub(crate) struct Places {
    taken: AtomicU32,
    /// Those of each tenant that has any, by its number.
    of_tenants: Mutex<FxHashMap<u64, u32>>,
    /// Those of requests that make their prompt.
    preparing: AtomicU32,
    /// How often there was no place left.
    refused: AtomicU64,
}

/// A place in an engine's queue. Dropping it gives it back, unless a sequence has it by then.
pub struct QueuePlace {
    places: Arc<Places>,
    tenant: Option<Tenant>,
    is_held: AtomicBool,
}

impl Places {
    /// Takes one of `limit` places. A tenant gets no more than are left to others after it, so that
    /// none fills the queue, nor do a few of them.
    ///
    /// # Errors
    /// How many are taken, by the tenant or by all, if none is left.
    pub(crate) fn enter(&self, limit: u32, tenant: Option<Tenant>) -> Result<(), u32> {
        let take = |own: u32| {
            let fits = |taken: u32| (taken < limit && own < limit - taken).then_some(taken + 1);
            self.taken
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
        };
        let entered = match tenant {
            None => take(0),
            Some(tenant) => {
                let mut tenants = self.of_tenants();
                let own = tenants.get(&tenant.number).copied().unwrap_or_default();
                take(own)
                    .inspect(|_| *tenants.entry(tenant.number).or_default() += 1)
                    .map_err(|taken| if own > 0 { own } else { taken })
            }
        };
        entered.map(drop).inspect_err(|_| self.refuse())
    }

    /// Takes one beyond all limits.
    pub(crate) fn follow(&self, tenant: Option<Tenant>) {
        if let Some(tenant) = tenant {
            *self.of_tenants().entry(tenant.number).or_default() += 1;
        }
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    fn of_tenants(&self) -> MutexGuard<'_, FxHashMap<u64, u32>> {
        self.of_tenants
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one of `limit` places for a request that makes its prompt.
    ///
    /// # Errors
    /// As [`enter`](Self::enter).
    pub(crate) fn reserve(
        self: &Arc<Self>,
        limit: u32,
        tenant: Option<Tenant>,
    ) -> Result<QueuePlace, u32> {
        self.enter(limit, tenant)?;
        self.preparing.fetch_add(1, Ordering::Relaxed);
        Ok(QueuePlace {
            places: Arc::clone(self),
            tenant,
            is_held: AtomicBool::new(true),
        })
    }

    /// Gives a place back.
    pub(crate) fn leave(&self, tenant: Option<Tenant>) {
        if let Some(tenant) = tenant {
            let mut tenants = self.of_tenants();
            if let Some(own) = tenants.get_mut(&tenant.number) {
                *own -= 1;
                if *own == 0 {
                    tenants.remove(&tenant.number);
                }
            }
        }
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a request that got no place.
    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// How many are taken.
    pub(crate) fn taken(&self) -> u32 {
        self.taken.load(Ordering::Relaxed)
    }

    /// How many of them are of requests that make their prompt.
    pub(crate) fn preparing(&self) -> u32 {
        self.preparing.load(Ordering::Relaxed)
    }

    /// How often there was no place left.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl QueuePlace {
    /// Hands the place on to a sequence. False if it is not one of these places, or another one has
    /// it.
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

impl fmt::Debug for QueuePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuePlace").finish_non_exhaustive()
    }
}
