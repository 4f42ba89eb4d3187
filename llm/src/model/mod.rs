//! A model, independent of its backend: its vocabulary, its files, the progress of its load, and
//! its effective values.

pub(crate) mod files;
mod head;
pub mod info;
mod info_text;
mod pair;
pub(crate) mod progress;
pub(crate) mod vocab;
pub mod weights;

pub use head::Head;
pub use pair::PairForm;
pub use progress::{LoadStage, loading};

/// Purpose of a model, by its file's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelKind {
    /// The model generates continuations of texts.
    Generates,
    /// The model makes vectors of texts.
    Embeds,
    /// The model scores documents for a query, or classifies texts.
    Ranks,
}
