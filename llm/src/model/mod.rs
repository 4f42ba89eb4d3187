//! A model as the rest of the crate sees it, whatever computes it: its vocabulary, its files, and
//! what it runs with.

pub(crate) mod files;
pub mod info;
mod pair;
pub(crate) mod vocab;

pub use pair::PairForm;
