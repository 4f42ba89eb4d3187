//! Sharing between sequences: the KV cells that they share, and finished prefixes in host memory.

use std::sync::Arc;

use crate::backend::Adapters;

mod cells;
mod checkpoints;
mod kv_cells;
mod prefix_cache;
mod reuse;
mod tree;

pub(crate) use cells::{CellBook, Held};
pub(crate) use kv_cells::{KvCells, Newcomer, Residents};
pub(crate) use prefix_cache::PrefixCache;
pub use prefix_cache::{CheckpointStatus, PrefixStatus};
pub(crate) use reuse::{Offer, WORTHWHILE, without_part_of_tile};
pub(crate) use tree::{Found, PrefixTree, Progress};

/// Sequences share cells only with those of the same group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ShareGroup {
    /// Other weights make other cells of the same tokens.
    pub(crate) adapters: Adapters,
    /// Clients that must not learn what others asked.
    pub(crate) salt: Arc<str>,
}
