//! Turns between requests, and between tenants if they are distinguished: an owner of many
//! sequences gets only the slots that no other owner needs.
//!
//! Each sequence has a turn: the number of slots that its owner already has. The owner is the
//! tenant, or the request itself without tenants. Running sequences are counted first, in order of
//! rank, then waiting ones. Sequences are ordered by turn, then by rank, so every owner gets one
//! slot before any gets two. The victim of a preemption is one of the last in that order, of the
//! owner that has most. A tenant of weight 3 has three slots in each turn.
//!
//! Among the sequences of a tenant, requests take turns in the same way. While only one tenant has
//! sequences, only the turns of its requests count.
//!
//! When a sequence leaves its slot, the next one of its owner queues up again behind those that
//! arrived meanwhile. Otherwise an owner of many sequences would keep a slot until all of them have
//! ended, and with few slots that would be all slots. Waiting sequences hold no cells, so this does
//! not change the order among those that do.

use rustc_hash::FxHashMap;

use super::Row;
use crate::protocol::{RequestId, Tenant};

/// Owner whose turns a sequence takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// The request alone, if there is no tenant.
    Request(RequestId),
    /// The tenant of the request.
    Tenant(Tenant),
}

/// Assigns the turns. Kept between steps to reuse its memory.
#[derive(Debug, Default)]
pub(crate) struct OwnerTurns {
    of_requests: FxHashMap<RequestId, u32>,
    of_tenants: FxHashMap<u64, u32>,
}

impl OwnerTurns {
    /// Sets the turn of each row, and sorts both kinds by order.
    pub(crate) fn arrange(&mut self, running: &mut [Row], waiting: &mut [Row]) {
        self.of_requests.clear();
        self.of_tenants.clear();
        let mut all = running.iter().chain(&*waiting).map(|row| row.owner);
        let first = all.next();
        let competes = all.any(|owner| Some(owner) != first);
        self.number(running, competes);
        self.number(waiting, competes);
    }

    fn number(&mut self, rows: &mut [Row], competes: bool) {
        rows.sort_unstable_by_key(|row| (row.rank, row.id));
        let mut several = false;
        let mut has_tenants = false;
        for row in &mut *rows {
            row.request_turn = next(self.of_requests.entry(row.request).or_default());
            row.turn = row.request_turn;
            several |= row.turn > 0;
            has_tenants |= competes && matches!(row.owner, Owner::Tenant(_));
        }
        // The slots of tenants are counted in the order among their own rows.
        if several && has_tenants {
            rows.sort_unstable_by_key(|row| (row.request_turn, row.rank, row.id));
        }
        for row in rows.iter_mut().filter(|_| has_tenants) {
            if let Owner::Tenant(tenant) = row.owner {
                let places = next(self.of_tenants.entry(tenant.number).or_default());
                row.turn = places / tenant.weight;
            }
        }
        rows.sort_unstable_by_key(Row::order);
    }
}

/// Increments a count and returns its former value.
fn next(count: &mut u32) -> u32 {
    *count += 1;
    *count - 1
}

/// Returns the rank of a waiting sequence after another one of its owner has left its slot, in
/// microseconds.
pub(crate) fn queue_again(rank: i64, head_start: i64, now: i64) -> i64 {
    rank.max(now.saturating_sub(head_start))
}
