//! Loads models: looks at the files that a spec names, tries them in a process of their own, and
//! opens them with the backend that runs them.

mod child;
mod open;
mod process;
mod small;
pub mod trial;

pub use open::{check_headers, is_adapter, kind_of};
pub(crate) use open::{open, open_embedding, prepare, prepare_embedding};
pub use process::prepare_process;
