//! Huge pages for memory from its beginning. The large blocks that packed weights are written to
//! get them as they are filled, where the system has some at hand; zeroing them takes no longer
//! than small ones. What gets none is moved later.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Bytes of a huge page.
pub(super) const HUGE_PAGE: usize = 2 << 20;
/// Smaller blocks of memory are left alone.
pub(super) const MIN_BYTES: usize = 64 << 20;
/// How long a start waits at most for huge pages that the system has to look for, beside what each
/// may take: zeroing one takes half of that.
const SEARCH: Duration = Duration::from_millis(20);
const SEARCH_OF_ONE: Duration = Duration::from_micros(400);

/// Puts huge pages behind memory that is filled for the first time, piece by piece, as long as the
/// system has them at hand.
#[derive(Debug, Default)]
pub(crate) struct NewPages {
    /// The large pieces of memory that will be filled to their ends.
    memory: Vec<Range<usize>>,
    pages: u32,
    took: Duration,
}

impl NewPages {
    /// Memory will be filled.
    pub(crate) fn expect(&mut self, first: *const u8, bytes: usize) {
        if bytes >= MIN_BYTES {
            let first = first.addr();
            self.memory.push(first..first + bytes);
        }
    }

    /// Some of it is filled now, and has nothing in it yet. Earlier pieces are in front of it.
    pub(crate) fn fill(&mut self, piece: &mut [u8]) {
        let address = piece.as_ptr().addr();
        let Some(memory) = self.memory.iter().find(|memory| memory.contains(&address)) else {
            return;
        };
        let whole = memory.end / HUGE_PAGE * HUGE_PAGE;
        let skipped = address.next_multiple_of(HUGE_PAGE) - address;
        for at in (skipped..piece.len()).step_by(HUGE_PAGE) {
            // Where memory is in pieces, the system moves others' pages out of the way first, some
            // milliseconds for each of ours.
            if address + at >= whole || self.took > SEARCH + SEARCH_OF_ONE * self.pages {
                break;
            }
            let started = Instant::now();
            if let Err(error) = begin(&mut piece[at]) {
                tracing::debug!("memory does not begin with huge pages: {error}");
                self.memory.clear();
                break;
            }
            self.pages += 1;
            self.took += started.elapsed();
        }
    }
}

/// Lets the system put a huge page behind the memory from a byte on.
#[cfg(target_os = "linux")]
fn begin(first: &mut u8) -> io::Result<()> {
    let page = std::ptr::from_mut(first);
    // SAFETY: the call changes which memory will be behind the addresses, and not what is in it,
    // whatever is mapped there.
    let result = unsafe { libc::madvise(page.cast(), HUGE_PAGE, libc::MADV_HUGEPAGE) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // The system looks for it now.
    *std::hint::black_box(first) = 0;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn begin(_: &mut u8) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn memory_that_begins_with_huge_pages_is_marked() {
        let mut memory = vec![0; MIN_BYTES + HUGE_PAGE];
        let mut pages = NewPages::default();
        pages.expect(memory.as_ptr(), memory.len());
        pages.fill(&mut memory);
        let page = memory.as_ptr().addr().next_multiple_of(HUGE_PAGE);
        let flags = flags_of(page);
        let marked = flags.is_none_or(|flags| flags.split(' ').any(|flag| flag == "hg"));
        let has_none = !Path::new("/sys/kernel/mm/transparent_hugepage").exists();
        assert!(marked || has_none);
    }

    /// What the system notes about the memory at an address, where it does.
    fn flags_of(address: usize) -> Option<String> {
        let maps = fs::read_to_string("/proc/self/smaps").ok()?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let mut within = false;
        for line in maps.lines() {
            let (word, rest) = line.split_once(' ')?;
            if let Some((start, end)) = word.split_once('-') {
                within = (number(start)?..number(end)?).contains(&address);
            } else if within && word == "VmFlags:" {
                return Some(rest.to_owned());
            }
        }
        None
    }
}
