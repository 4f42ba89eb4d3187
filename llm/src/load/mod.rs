//! Loads models: looks at the files that a spec names, tries them in a process of their own, and
//! opens them with the backend that runs them.

mod child;
mod kind;
mod open;
mod process;
pub(crate) mod progress;
mod small;
pub mod trial;

pub use kind::{ModelKind, kind_of};
pub(crate) use open::{open, open_embedding, prepare, prepare_embedding};
pub use process::prepare_process;
pub use progress::{LoadStage, loading};
