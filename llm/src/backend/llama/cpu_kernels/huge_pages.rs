//! Huge pages for what llama.cpp computes with: weights and cells are read from end to end in every
//! step, and with pages of 4 KiB the processor looks up a new one every few dozen nanoseconds.
//!
//! Packed weights are in such pages from the beginning, where the system has them at hand. Other
//! memory is moved page by page while nothing is to be computed: moving beside a step makes that
//! longer. Cells that nobody has used yet get memory then. Where the system cannot or must not do
//! it, all stays as it is.

use std::fs;
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::new_pages::{HUGE_PAGE, MIN_BYTES};
use super::zeroed;

/// Failures one after the other until the system is taken to have no huge pages left.
const PATIENCE: u32 = 16;
/// How long a request that comes meanwhile waits at most, but for the page that is being moved.
const SLICE: Duration = Duration::from_millis(5);
const SETTING: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Moves the large, filled pieces of this process's memory to huge pages, and fills its cells with
/// them.
#[derive(Debug)]
pub(crate) struct HugePages {
    /// What is still to be looked at; `None` before the first look.
    left: Option<Vec<Range<usize>>>,
    moved: u32,
    failures: u32,
    took: Duration,
}

impl HugePages {
    /// Nothing is moved unless it is `wanted`.
    pub(crate) fn new(wanted: bool) -> Self {
        Self {
            left: if wanted { None } else { Some(Vec::new()) },
            moved: 0,
            failures: 0,
            took: Duration::ZERO,
        }
    }

    /// Moves some pages of the memory that the process had when this was called first; says whether
    /// there may be more.
    pub(crate) fn move_some(&mut self) -> bool {
        if self.left.get_or_insert_with(to_look_at).is_empty() {
            return false;
        }
        let started = Instant::now();
        while let Some(page) = self.next() {
            if !is_filled(page) {
                continue;
            }
            match collapse(page) {
                Ok(()) => {
                    self.moved += 1;
                    self.failures = 0;
                }
                Err(error) => {
                    tracing::trace!("a page was not moved: {error}");
                    self.failures += 1;
                    if self.failures == PATIENCE {
                        self.left = Some(Vec::new());
                    }
                }
            }
            if started.elapsed() >= SLICE {
                break;
            }
        }
        self.took += started.elapsed();
        let more = self.left.as_ref().is_some_and(|left| !left.is_empty());
        if !more {
            let (moved, took) = (self.moved, self.took);
            tracing::debug!(moved, ?took, "memory was moved to huge pages");
        }
        more
    }

    fn next(&mut self) -> Option<usize> {
        let left = self.left.as_mut()?;
        let range = left.last_mut()?;
        let page = range.start;
        range.start += HUGE_PAGE;
        if range.start >= range.end {
            left.pop();
        }
        Some(page)
    }
}

/// All there is, unless the system says not to use huge pages.
fn to_look_at() -> Vec<Range<usize>> {
    let setting = fs::read_to_string(SETTING).unwrap_or_default();
    if setting.is_empty() || setting.contains("[never]") {
        Vec::new()
    } else {
        anonymous()
    }
}

/// Large private memory of this process, cut to whole huge pages.
fn anonymous() -> Vec<Range<usize>> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().filter_map(range_of).collect()
}

/// The huge pages that fit in a line of `/proc/self/maps`, if that is large private memory that
/// belongs to no file.
fn range_of(line: &str) -> Option<Range<usize>> {
    let mut words = line.split_ascii_whitespace();
    let (addresses, access) = (words.next()?, words.next()?);
    let (start, end) = addresses.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let (start, end) = (address(start)?, address(end)?);
    // Offset, device and inode come before the file.
    if access != "rw-p" || words.nth(3).is_some() || end - start < MIN_BYTES {
        return None;
    }
    Some(start.next_multiple_of(HUGE_PAGE)..end / HUGE_PAGE * HUGE_PAGE)
        .filter(|range| !range.is_empty())
}

/// Whether there is memory behind all of it, so that a huge page takes no more. Cells get what is
/// missing: it is set aside for them.
fn is_filled(page: usize) -> bool {
    let memory = page..page + HUGE_PAGE;
    zeroed::resident_bytes(&memory) == HUGE_PAGE || zeroed::contains(&memory) && fill(page)
}

/// Finds memory for all of a page that is mapped, if possible a huge one.
fn fill(page: usize) -> bool {
    let advise = |advice| {
        // SAFETY: both calls change which memory is behind the addresses and not what is in it,
        // whatever is mapped there by now.
        unsafe { libc::madvise(page as *mut libc::c_void, HUGE_PAGE, advice) == 0 }
    };
    advise(libc::MADV_HUGEPAGE) && advise(libc::MADV_POPULATE_WRITE)
}

fn collapse(page: usize) -> io::Result<()> {
    // SAFETY: the call changes which memory is behind the addresses and not what is in it, whatever
    // is mapped there by now.
    let result =
        unsafe { libc::madvise(page as *mut libc::c_void, HUGE_PAGE, libc::MADV_COLLAPSE) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_private_memory_without_a_file_is_moved() {
        let range = |line| range_of(line);
        assert_eq!(
            range("7f0000001000-7f0010001000 rw-p 00000000 00:00 0 "),
            Some(0x7f00_0020_0000..0x7f00_1000_0000)
        );
        for line in [
            "7f0000000000-7f0000200000 rw-p 00000000 00:00 0 ",
            "7f0000000000-7f0010000000 r--p 00000000 00:00 0 ",
            "7f0000000000-7f0010000000 rw-s 00000000 00:01 12 /dev/zero",
            "7f0000000000-7f0010000000 rw-p 00000000 fe:00 12 /a/file",
            "",
        ] {
            assert_eq!(range(line), None, "{line}");
        }
    }

    #[test]
    fn what_is_in_memory_stays() {
        let numbers: Vec<u32> = (0..(MIN_BYTES / 2) as u32).collect();
        let mut pages = HugePages::new(true);
        while pages.move_some() {}
        assert!((0..).zip(&numbers).all(|(index, number)| index == *number));
    }
}
