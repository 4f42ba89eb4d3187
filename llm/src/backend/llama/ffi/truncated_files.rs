//! Model files that are truncated while they are mapped. The system answers a read beyond the end
//! with a signal (`SIGBUS`), which would end the process. Here the page is replaced by zeros, so
//! that the read continues, and the computation learns that its numbers are worthless.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of reads of missing pages. `Release` and `Acquire` order it behind the address.
static FAULTS: AtomicUsize = AtomicUsize::new(0);
/// Addresses of the last such reads. There is room for more than the threads that compute, and one
/// is enough.
static ADDRESSES: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];
/// Installs the signal handler, so that this process survives such reads. Does nothing on other
/// systems than Linux. Must be called once.
pub(crate) fn attach() {
    #[cfg(target_os = "linux")]
    signal::attach();
}

#[cfg(target_os = "linux")]
mod signal {
    use std::ffi::{c_int, c_void};
    use std::mem;
    use std::ptr;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{ADDRESSES, FAULTS};

    /// Size of a page, in bytes.
    static PAGE: AtomicUsize = AtomicUsize::new(4096);
    /// The earlier action for the signal.
    static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

    pub(super) fn attach() {
        // SAFETY: takes a plain number.
        if let Ok(bytes) = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }) {
            PAGE.store(bytes, Ordering::Relaxed);
        }
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = handle;
        // SAFETY: without flags and with an empty mask, all zeros are a valid action; the handler
        // lives as long as the program and only does what is allowed in one.
        unsafe {
            let mut before: libc::sigaction = mem::zeroed();
            if libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut before) != 0 {
                return;
            }
            let _first = BEFORE.set(before);
            let mut action: libc::sigaction = mem::zeroed();
            action.sa_sigaction = handler as libc::sighandler_t;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            let _refused = libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut());
        }
    }

    /// Replaces the page if its file no longer has it. Every other cause is left to the earlier
    /// action.
    extern "C" fn handle(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
        // SAFETY: the system passes what is known of the signal; the call of `mmap` replaces one
        // page of a file's mapping, which cannot be read any more, and a program's own pages never
        // cause this kind of signal.
        unsafe {
            if (*info).si_code == libc::BUS_ADRERR {
                let address = (*info).si_addr() as usize;
                let bytes = PAGE.load(Ordering::Relaxed);
                let page = libc::mmap(
                    (address / bytes * bytes) as *mut c_void,
                    bytes,
                    libc::PROT_READ,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                    -1,
                    0,
                );
                if page != libc::MAP_FAILED {
                    let number = FAULTS.load(Ordering::Relaxed);
                    ADDRESSES[number % ADDRESSES.len()].store(address, Ordering::Relaxed);
                    FAULTS.fetch_add(1, Ordering::Release);
                    return;
                }
            }
            // The read is repeated when this returns.
            let before = BEFORE.get().map_or(ptr::null(), ptr::from_ref);
            let _refused = libc::sigaction(libc::SIGBUS, before, ptr::null_mut());
        }
    }
}

/// Mappings of a model, with a check for reads of missing pages.
#[derive(Debug)]
pub(crate) struct MappingCheck {
    mappings: Vec<Range<usize>>,
    seen: usize,
    cut: bool,
}

impl MappingCheck {
    /// Begins to check these mappings; earlier reads are ignored.
    pub(crate) fn new(mappings: Vec<Range<usize>>) -> Self {
        Self {
            mappings,
            seen: FAULTS.load(Ordering::Acquire),
            cut: false,
        }
    }

    /// Returns true if a missing page was read. It stays true, because the page is zeros now.
    pub(crate) fn look(&mut self) -> bool {
        let faults = FAULTS.load(Ordering::Acquire);
        if faults != self.seen {
            self.seen = faults;
            let within = |address: &AtomicUsize| {
                let address = address.load(Ordering::Relaxed);
                self.mappings.iter().any(|range| range.contains(&address))
            };
            self.cut |= ADDRESSES.iter().any(within);
        }
        self.cut
    }
}
