//! Huge pages for new memory. The large blocks that packed weights are written to get them as they
//! are filled, as long as the system has free ones. Zeroing them takes no longer than with small
//! pages. The rest is moved later.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Size of a huge page, in bytes.
pub(super) const HUGE_PAGE: usize = 2 << 20;
/// Minimum size of a block that gets huge pages, in bytes.
pub(super) const MIN_BYTES: usize = 64 << 20;
/// Maximum time for which a start waits for huge pages that the system must search for, besides a
/// time for each page. Zeroing a page takes half of the latter.
const SEARCH: Duration = Duration::from_millis(20);
const SEARCH_OF_ONE: Duration = Duration::from_micros(400);

/// Puts huge pages behind memory that is filled for the first time, piece by piece, as long as the
/// system has free ones.
#[derive(Debug, Default)]
pub(crate) struct NewPages {
    /// Large blocks of memory that will be filled completely.
    memory: Vec<Range<usize>>,
    pages: u32,
    took: Duration,
}

impl NewPages {
    /// Announces memory that will be filled; small blocks are ignored.
    pub(crate) fn expect(&mut self, first: *const u8, bytes: usize) {
        if bytes >= MIN_BYTES {
            let first = first.addr();
            self.memory.push(first..first + bytes);
        }
    }

    /// Prepares a piece of announced memory that is filled next and still empty. Pieces come in
    /// order.
    pub(crate) fn fill(&mut self, piece: &mut [u8]) {
        let address = piece.as_ptr().addr();
        let Some(memory) = self.memory.iter().find(|memory| memory.contains(&address)) else {
            return;
        };
        let whole = memory.end / HUGE_PAGE * HUGE_PAGE;
        let skipped = address.next_multiple_of(HUGE_PAGE) - address;
        for at in (skipped..piece.len()).step_by(HUGE_PAGE) {
            // If free memory is fragmented, the system first moves other pages away, which takes
            // some milliseconds for each huge page.
            if address + at >= whole || self.took > SEARCH + SEARCH_OF_ONE * self.pages {
                break;
            }
            let started = Instant::now();
            if let Err(error) = begin(&mut piece[at]) {
                tracing::debug!("new memory gets no huge pages: {error}");
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
    let page = std::ptr::from_mut(first).addr();
    // SAFETY: the call changes which memory will be behind the addresses, and not what is in it,
    // whatever is mapped there.
    unsafe { super::super::ffi::advise(&(page..page + HUGE_PAGE), libc::MADV_HUGEPAGE)? };
    // The system allocates the page at this write.
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

    /// Returns the flags that the system lists for the memory at an address, if it lists any.
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
