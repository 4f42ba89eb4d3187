//! Sharing between sequences: the KV cells that they share, and finished prefixes in host memory.

use std::sync::Arc;

use crate::backend::Adapters;

mod cells;
mod checkpoints;
mod kv_cells;
mod prefix_cache;
mod reuse;
mod status;
mod tree;

pub(crate) use cells::{CellBook, SequenceCells};
pub(crate) use kv_cells::{KvCells, Newcomer, Residents};
pub(crate) use prefix_cache::PrefixCache;
pub(crate) use reuse::{Offer, WORTHWHILE, without_part_of_tile};
pub use status::{CheckpointStatus, PrefixStatus};
pub(crate) use tree::{PrefixMatch, PrefixTree, Progress, common};

/// A group of sequences that may share cells with each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ShareGroup {
    /// LoRA adapters. Different weights make different cells for the same tokens.
    pub(crate) adapters: Adapters,
    /// Separates clients that must not learn the requests of others.
    pub(crate) salt: Arc<str>,
}
