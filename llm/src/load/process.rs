//! What a process is prepared with before it loads its first model.

use crate::backend;
use crate::room;

/// Prepares the process for the limits of memory that it has. A program calls it once, before its
/// other threads start; without it, a process keeps more of the memory that it has freed, and one
/// whose addresses are bounded can run fewer threads.
pub fn prepare_process() {
    count_memory();
    backend::limit_heaps(room::limits_mappings());
}

/// Counts free memory with the backend's allocator.
pub(super) fn count_memory() {
    room::count_with(backend::allocator());
}
