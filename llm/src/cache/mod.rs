//! What sequences have in common: which KV cells they share, and which finished prefixes are kept
//! in host memory.

mod cells;
mod group;
mod offer;
mod prefix_cache;
mod tree;

pub(crate) use cells::{CellBook, Held};
pub(crate) use group::ShareGroup;
pub(crate) use offer::{Offer, WORTHWHILE};
pub(crate) use prefix_cache::{KvCells, Newcomer, PrefixCache, Residents};
pub(crate) use tree::{Found, PrefixTree, Progress};
