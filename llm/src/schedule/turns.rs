//! Turns between requests: one that has many sequences gets as many places as others have no use
//! for, and no more.
//!
//! Each sequence has a turn: how many places its request has before it. Those that run are counted
//! first, in order of rank, then those that wait. All order goes by turn, and by rank where turns
//! are equal, so every request has one place before any has two. Whoever gives way is one of the
//! last in that order, of the request that has most.
//!
//! When a sequence leaves its place, the next of its request queue up again behind those who came
//! meanwhile: else a request of many would keep a place until all of them have ended, and with few
//! places that would be all of them. Sequences that wait hold no cells, so the order among those
//! that do hold some does not change by it.

use rustc_hash::FxHashMap;

use super::Row;
use crate::protocol::RequestId;

/// Numbers the turns. Kept between steps to reuse its memory.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    places: FxHashMap<RequestId, u32>,
}

impl Turns {
    /// Gives each row its turn, and puts both kinds in order.
    pub(crate) fn arrange(&mut self, running: &mut [Row], waiting: &mut [Row]) {
        self.places.clear();
        self.number(running);
        self.number(waiting);
    }

    fn number(&mut self, rows: &mut [Row]) {
        rows.sort_unstable_by_key(|row| (row.rank, row.id));
        let mut several = false;
        for row in &mut *rows {
            let before = self.places.entry(row.request).or_default();
            row.turn = *before;
            *before += 1;
            several |= row.turn > 0;
        }
        if several {
            rows.sort_unstable_by_key(Row::order);
        }
    }
}

/// The rank of a sequence that waits when another one of its request has left its place, in
/// microseconds.
pub(crate) fn queue_again(rank: i64, head_start: i64, now: i64) -> i64 {
    rank.max(now.saturating_sub(head_start))
}
