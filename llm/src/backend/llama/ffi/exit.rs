//! The end of the process.

/// Ends the process without C++'s destructors of statics.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: the call has no conditions.
    unsafe { libc::_exit(code) }
}
