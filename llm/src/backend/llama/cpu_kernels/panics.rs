//! Panics of the kernels. They are caught in every function that ggml calls. A panic makes its own
//! computation fail, and no other.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use llama_cpp_sys_2 as sys;

use crate::lock::lock;

/// Addresses of pools in whose threads a panic occurred since the [`PanicWatch`] on them began.
static FAILED: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

thread_local! {
    /// Number of panics caught on this thread.
    static HERE: Cell<u64> = const { Cell::new(0) };
}

/// Runs a call of ggml on the thread that loads or plans. Returns the default value after a panic.
pub(super) fn guarded<T: Default>(work: impl FnOnce() -> T) -> T {
    // Half-written results are known to be wrong, and are not used.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        HERE.set(HERE.get() + 1);
        T::default()
    })
}

/// As [`guarded`], for a part of a computation by the threads of a pool.
pub(super) fn guarded_in<T: Default>(
    pool: *mut sys::ggml_threadpool,
    work: impl FnOnce() -> T,
) -> T {
    let before = HERE.get();
    let done = guarded(|| {
        #[cfg(test)]
        super::tests::panic_if_told();
        work()
    });
    if HERE.get() != before {
        lock(&FAILED).insert(pool.addr());
    }
    done
}

/// Detects panics in a load or a computation.
pub(crate) struct PanicWatch {
    pool: usize,
    here: u64,
}

impl PanicWatch {
    /// Watches the calls on this thread from here on.
    pub(crate) fn thread() -> Self {
        Self {
            pool: 0,
            here: HERE.get(),
        }
    }

    /// Watches this thread and a pool that it computes with, which computes nothing else meanwhile.
    pub(crate) fn pool(pool: *mut sys::ggml_threadpool) -> Self {
        let pool = pool.addr();
        // Another pool may have had the address before.
        lock(&FAILED).remove(&pool);
        Self {
            pool,
            ..Self::thread()
        }
    }

    /// Returns true if a panic occurred. A computation ends with a barrier of its threads, so none
    /// is missed.
    pub(crate) fn panicked(&self) -> bool {
        HERE.get() != self.here || lock(&FAILED).contains(&self.pool)
    }
}
