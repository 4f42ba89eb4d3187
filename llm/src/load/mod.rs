//! Loading of models: checks the files that a spec names, tries them in a separate process, and
//! opens them with their backend.

mod child;
mod open;
mod small;
pub mod trial;

pub use open::{check_headers, is_adapter, kind_of};
pub(crate) use open::{open, open_embedding, prepare, prepare_embedding};

use crate::{backend, memory_budget};

/// Prepares the process for its memory limits. A program calls it once, before its other threads
/// start. Otherwise it keeps more freed memory, and can run fewer threads if its address space is
/// limited.
pub fn prepare_process() {
    count_memory();
    backend::limit_heaps(memory_budget::limits_mappings());
}

/// Registers the backend's allocator, so that free memory is counted.
fn count_memory() {
    memory_budget::count_with(backend::allocator());
}
