//! Memory budget of the process: the memory that it can still take before an allocation fails or
//! the system kills it. New work is compared with it in time to react: first caches are emptied,
//! then requests are refused.
//!
//! The budget is the minimum of the machine's available memory, of the memory left by the process's
//! control groups (both versions), and of the memory left by its limits of address space and data
//! (`ulimit -v`, `ulimit -d`). KV cells that are allocated but not used yet are subtracted, because
//! they will take memory.

use std::sync::{Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

mod limits;

use crate::lock::lock;
pub use crate::protocol::OutOfMemory;
use limits::MemoryLimits;
#[cfg(feature = "llama")]
pub(crate) use limits::field;

const MIB: u64 = 1 << 20;
/// Reserve for unforeseen needs, such as the work of admitted requests: a sixteenth of the total,
/// within these bounds.
const MIN_RESERVE: u64 = 16 * MIB;
const MAX_RESERVE: u64 = 128 * MIB;
/// With more room than this, a look at the limits stays valid longer: so much cannot be taken
/// meanwhile.
const PLENTY: u64 = 4 << 30;
const LOOK_AGAIN: Duration = Duration::from_millis(200);
const LOOK_AGAIN_SOON: Duration = Duration::from_millis(5);

/// A cache that can free memory.
pub trait Cache: Send + Sync {
    /// Frees as much as it can.
    fn shrink(&self);
}

/// A claim of bytes that are about to be allocated. They count as taken until it is dropped. It
/// should be dropped after the allocation, which then counts itself.
#[derive(Debug)]
#[must_use]
pub struct Claim(u64);

impl Drop for Claim {
    fn drop(&mut self) {
        lock(&ACCOUNT).release(self.0);
    }
}

static ACCOUNT: Mutex<Account> = Mutex::new(Account {
    claimed: 0,
    seen: None,
});
/// The caches of the process that still exist.
static CACHES: Mutex<Vec<Weak<dyn Cache>>> = Mutex::new(Vec::new());

/// Memory left, and the sum of claims on it.
#[derive(Debug)]
struct Account {
    /// Sum of all claims, in bytes. A claim is added before the check. So of two concurrent claims
    /// both may be refused, but never too many admitted.
    claimed: u64,
    seen: Option<Look>,
}

/// The result of a look at the limits, and its time.
#[derive(Debug)]
struct Look {
    limits: MemoryLimits,
    at: Instant,
    /// Bytes that were left, minus claims that have ended since, as their memory is taken.
    left: u64,
}

/// Registers a cache, which is asked to shrink when memory is short, as long as it exists.
pub fn enroll(cache: Weak<dyn Cache>) {
    let mut caches = lock(&CACHES);
    caches.retain(|cache| cache.strong_count() > 0);
    caches.push(cache);
}

/// Functions of the allocator that tell how memory is used.
#[derive(Clone, Copy)]
pub(crate) struct Allocator {
    /// Bytes of KV cells that are allocated but not used yet.
    pub(crate) unbacked: fn() -> u64,
    /// Bytes of the heap that are freed but not returned to the system.
    pub(crate) freed: fn() -> u64,
    /// Returns freed memory to the system.
    pub(crate) trim: fn(),
}

impl Allocator {
    /// An allocator that reports nothing.
    pub(crate) const SILENT: Self = Self {
        unbacked: || 0,
        freed: || 0,
        trim: || {},
    };
}

static ALLOCATOR: OnceLock<Allocator> = OnceLock::new();

/// Registers the allocator. Only the first call has an effect.
pub(crate) fn count_with(allocator: Allocator) {
    ALLOCATOR.get_or_init(|| allocator);
}

fn allocator() -> Allocator {
    ALLOCATOR.get().copied().unwrap_or(Allocator::SILENT)
}

/// Returns true if the system limits the memory that this process can map.
pub(crate) fn limits_mappings() -> bool {
    MemoryLimits::for_this_process().limits_mappings()
}

/// Claims bytes, if they fit beside the reserve for running requests and other claims. Caches
/// shrink first if they do not.
///
/// # Errors
/// [`OutOfMemory`] if they do not fit.
pub fn claim(bytes: u64) -> Result<Claim, OutOfMemory> {
    // Nobody has as much, and sums of claims stay within 64 bits.
    let bytes = bytes.min(1 << 48);
    lock(&ACCOUNT).claimed += bytes;
    let claim = Claim(bytes);
    let fits = |anew| lock(&ACCOUNT).fits(0, 1, anew);
    if fits(false) || fits(true) {
        return Ok(claim);
    }
    let caches: Vec<_> = lock(&CACHES).iter().filter_map(Weak::upgrade).collect();
    tracing::debug!(wanted = bytes, "memory is short: caches shrink");
    for cache in caches {
        cache.shrink();
    }
    trim();
    if fits(true) {
        return Ok(claim);
    }
    let left = lock(&ACCOUNT).look(false).left;
    Err(OutOfMemory { left })
}

/// Returns freed memory to the system if the allocator keeps it.
pub fn trim() {
    (allocator().trim)();
}

/// Number of bytes left now; `None` if the system does not report limits.
pub(crate) fn available_bytes() -> Option<u64> {
    Some(MemoryLimits::for_this_process().left()).filter(|left| *left < u64::MAX)
}

/// Checks that bytes fit, as [`claim`] does, for an immediate allocation.
///
/// # Errors
/// Those of [`claim`].
pub fn ensure(bytes: u64) -> Result<(), OutOfMemory> {
    claim(bytes).map(drop)
}

/// Returns true if a cache may take this many bytes. This needs more free memory than a request
/// does.
pub fn is_ample(bytes: u64) -> bool {
    lock(&ACCOUNT).fits(bytes, 2, false)
}

impl Account {
    /// Returns true if these bytes fit beside all claims and this many reserves, by the last look at
    /// the limits or by a new one.
    fn fits(&mut self, bytes: u64, reserves: u64, anew: bool) -> bool {
        let wanted = bytes.saturating_add(self.claimed);
        let look = self.look(anew);
        let reserve = (look.limits.total() / 16).clamp(MIN_RESERVE, MAX_RESERVE);
        look.left >= wanted.saturating_add(reserves * reserve)
    }

    /// Returns the last look if it is recent, or else a new one.
    fn look(&mut self, anew: bool) -> &Look {
        let look = match self.seen.take() {
            Some(look) if !anew && look.is_recent() => look,
            old => {
                let limits = old.map_or_else(MemoryLimits::for_this_process, |look| look.limits);
                Look {
                    left: limits.left(),
                    at: Instant::now(),
                    limits,
                }
            }
        };
        self.seen.insert(look)
    }

    /// Ends a claim of this many bytes.
    fn release(&mut self, bytes: u64) {
        self.claimed -= bytes;
        if let Some(look) = &mut self.seen {
            look.left = look.left.saturating_sub(bytes);
        }
    }
}

impl Look {
    /// Returns true if the look is still valid.
    fn is_recent(&self) -> bool {
        let plenty = self.left > PLENTY;
        self.at.elapsed() < if plenty { LOOK_AGAIN } else { LOOK_AGAIN_SOON }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[derive(Default)]
    struct Counting(AtomicU32);

    impl Cache for Counting {
        fn shrink(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn caches_shrink_before_anybody_is_refused() {
        let cache = Arc::new(Counting::default());
        let weak: Weak<dyn Cache> = Arc::downgrade(&(Arc::clone(&cache) as Arc<dyn Cache>));
        enroll(weak);
        let refused = ensure(u64::MAX / 2);
        // If the system gives no figures, no request is refused.
        if refused.is_err() {
            assert!(cache.0.load(Ordering::Relaxed) > 0);
        }
        assert_eq!(ensure(0), Ok(()), "a claim that was refused is gone");
    }

    #[test]
    fn what_claims_were_for_is_taken_until_it_is_seen() {
        let mut account = Account {
            claimed: 70 * MIB,
            seen: Some(Look {
                limits: MemoryLimits::default(),
                at: Instant::now() + Duration::from_hours(1),
                left: 100 * MIB + MAX_RESERVE,
            }),
        };
        assert!(account.fits(30 * MIB, 1, false));
        assert!(!account.fits(31 * MIB, 1, false));
        account.release(50 * MIB);
        assert!(account.fits(30 * MIB, 1, false));
        assert!(!account.fits(31 * MIB, 1, false), "it was allocated");
        assert!(account.fits(31 * MIB, 1, true), "nothing of it was");
    }
}
