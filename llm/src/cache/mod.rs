//! What sequences have in common: which cells they share, and which finished prefixes are kept in host memory.

mod cells;
mod group;
mod tree;

pub(crate) use cells::{CellBook, Held};
pub(crate) use group::ShareGroup;
pub(crate) use tree::{Found, PrefixTree, Progress};
