//! A model as the rest of the crate sees it, whatever computes it: its vocabulary, its files, how
//! far it is while it is loaded, and what it runs with.

pub(crate) mod files;
pub mod info;
mod kind;
mod pair;
pub(crate) mod progress;
pub(crate) mod vocab;

pub use kind::ModelKind;
pub use pair::PairForm;
pub use progress::{LoadStage, loading};
