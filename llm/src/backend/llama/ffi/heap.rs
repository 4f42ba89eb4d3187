//! The heap of the C library, which Rust and C++ allocate from.

/// Bytes that were freed and not given back to the system: the next allocations take them.
pub(crate) fn freed_bytes() -> u64 {
    // SAFETY: the call reads the numbers of the heaps, under their locks.
    unsafe { libc::mallinfo2() }.fordblks as u64
}

/// Gives freed memory back to the system.
pub(crate) fn trim() {
    // SAFETY: the call touches free memory alone, under the locks of the heaps.
    unsafe { libc::malloc_trim(0) };
}

/// Has threads share a few heaps: each reserves 64 MiB of addresses, which count where the address
/// space is limited.
pub(crate) fn few_heaps() {
    // SAFETY: sets a number that is read when a thread first allocates.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 2) };
}
