//! Panics of the kernels. None leaves a function that ggml calls: it spoils the computation that it
//! is in, and no other.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use llama_cpp_sys_2 as sys;

/// The addresses of pools whose threads have had one since a [`Watch`] of theirs began.
static FAILED: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

thread_local! {
    /// How many there were on this thread.
    static HERE: Cell<u64> = const { Cell::new(0) };
}

/// Runs what ggml asks on the thread that loads or plans. Instead of a panic, its answer is the
/// default.
pub(super) fn guarded<T: Default>(work: impl FnOnce() -> T) -> T {
    // What is half written is known to be wrong, and not used.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        HERE.set(HERE.get() + 1);
        T::default()
    })
}

/// As [`guarded`], for a part of what the threads of a pool compute.
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
        let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
        failed.insert(pool.addr());
    }
    done
}

/// Tells whether something that is loaded or computed is spoiled by a panic.
pub(crate) struct Watch {
    pool: usize,
    here: u64,
}

impl Watch {
    /// From here on, of what this thread does.
    pub(crate) fn thread() -> Self {
        Self {
            pool: 0,
            here: HERE.get(),
        }
    }

    /// From here on, of what this thread has a pool compute, which computes nothing else meanwhile.
    pub(crate) fn pool(pool: *mut sys::ggml_threadpool) -> Self {
        let pool = pool.addr();
        // Another pool may have had the address before.
        let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
        failed.remove(&pool);
        Self {
            pool,
            ..Self::thread()
        }
    }

    /// Whether there was one. A computation ends with a barrier of the threads that computed.
    pub(crate) fn panicked(&self) -> bool {
        let failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
        HERE.get() != self.here || failed.contains(&self.pool)
    }
}
