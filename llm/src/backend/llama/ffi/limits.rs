//! What a process may take that is expected to fail.

/// Limits the memory that this process allocates from here on, mapped files aside, and has it leave
/// no image of itself when it is killed.
pub(crate) fn limit_process(bytes: u64) {
    let limit = |limited, to: u64| {
        let to = libc::rlimit {
            rlim_cur: to,
            rlim_max: to,
        };
        // SAFETY: the numbers are only read. A limit that the system refuses, such as one above
        // that of the parent, is not needed.
        let _refused = unsafe { libc::setrlimit(limited, &raw const to) };
    };
    limit(libc::RLIMIT_DATA, bytes);
    limit(libc::RLIMIT_CORE, 0);
    #[cfg(target_os = "linux")]
    // SAFETY: takes plain numbers.
    let _refused = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
}
