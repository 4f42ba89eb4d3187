//! A model as the rest of the crate sees it, whatever computes it: its vocabulary, its files, how
//! far it is while it is loaded, and what it runs with.

pub(crate) mod files;
mod head;
pub mod info;
mod pair;
pub(crate) mod progress;
pub(crate) mod vocab;
pub mod weights;

pub use head::Head;
pub use pair::PairForm;
pub use progress::{LoadStage, loading};

/// What can be done with a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelKind {
    /// It continues texts.
    Generates,
    /// It makes vectors of texts.
    Embeds,
    /// It scores texts beside a query, or tells classes of texts apart.
    Ranks,
}
