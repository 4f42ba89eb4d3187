//! Loading of models: checks the files that a spec names, tries them in a separate process, and
//! opens them with their backend.

mod child;
mod open;
mod process;
mod small;
pub mod trial;

pub use open::{check_headers, is_adapter, kind_of};
pub(crate) use open::{open, open_embedding, prepare, prepare_embedding};
pub use process::prepare_process;
