//! Preparation of a process before it loads its first model.

use crate::backend;
use crate::room;

/// Prepares the process for its memory limits. A program calls it once, before its other threads
/// start. Otherwise it keeps more freed memory, and can run fewer threads if its address space is
/// limited.
pub fn prepare_process() {
    count_memory();
    backend::limit_heaps(room::limits_mappings());
}

/// Registers the backend's allocator, so that free memory is counted.
pub(super) fn count_memory() {
    room::count_with(backend::allocator());
}
