//! Huge pages for the memory that llama.cpp computes with. Weights and cells are read from end to
//! end in every step, and with pages of 4 KiB the processor must look up a new page every few dozen
//! nanoseconds.
//!
//! Packed weights are in huge pages from the beginning, if the system has free ones. Other memory
//! is moved page by page while the engine is idle, because moving slows down a step. Cells are
//! moved once half of a page is in use: unused cells take no memory. If the system cannot or must
//! not use huge pages, nothing is moved.

use std::collections::HashSet;
use std::fs;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::super::ffi::{advise, map_entry};
use super::new_pages::{HUGE_PAGE, MIN_BYTES};
use super::zeroed;

/// Minimum number of bytes in use for a page of cells to be moved. So cells take at most twice the
/// memory of those in use.
const ENOUGH: usize = HUGE_PAGE / 2;
/// Number of consecutive failures after which moving stops: the system has no huge pages left.
const PATIENCE: u32 = 16;
/// Maximum time that an arriving request waits, besides the move of the current page.
const SLICE: Duration = Duration::from_millis(5);
const SETTING: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Moves the large, filled pieces of this process's memory to huge pages, and later its cells once
/// they are in use.
#[derive(Debug, Default)]
pub(crate) struct HugePages {
    wanted: bool,
    /// Ranges still to be scanned; `None` between two scans.
    left: Option<Vec<Range<usize>>>,
    /// True once the first scan, of all memory, has begun.
    looked: bool,
    /// Pages that were moved already.
    moved: HashSet<usize>,
    failures: u32,
}

impl HugePages {
    /// Moves nothing unless `wanted` is true and the system allows it.
    pub(crate) fn new(wanted: bool) -> Self {
        Self {
            wanted: wanted && is_allowed(),
            ..Self::default()
        }
    }

    /// Moves some pages and returns true if there may be more. The first scan covers all memory of
    /// the process. A call after the end of a scan begins another one, of the cells.
    pub(crate) fn move_some(&mut self) -> bool {
        if !self.wanted {
            return false;
        }
        let first = !std::mem::replace(&mut self.looked, true);
        self.left
            .get_or_insert_with(|| if first { anonymous() } else { zeroed::cells() });
        let started = Instant::now();
        while let Some(page) = self.next() {
            if self.moved.contains(&page) || !is_worth_it(page) {
                continue;
            }
            // SAFETY: the call changes which memory is behind the addresses and not what is in it,
            // whatever is mapped there by now.
            match unsafe { advise(&(page..page + HUGE_PAGE), libc::MADV_COLLAPSE) } {
                Ok(()) => {
                    self.moved.insert(page);
                    self.failures = 0;
                }
                Err(error) => {
                    tracing::trace!("a page was not moved: {error}");
                    self.failures += 1;
                    if self.failures == PATIENCE {
                        self.wanted = false;
                        return false;
                    }
                }
            }
            if started.elapsed() >= SLICE {
                return true;
            }
        }
        self.left = None;
        tracing::trace!(pages = self.moved.len(), "memory in huge pages");
        false
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

/// Returns true if the system has huge pages and allows their use.
fn is_allowed() -> bool {
    let setting = fs::read_to_string(SETTING).unwrap_or_default();
    !setting.is_empty() && !setting.contains("[never]")
}

/// Returns the large private memory of this process, cut to whole huge pages.
fn anonymous() -> Vec<Range<usize>> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().filter_map(range_of).collect()
}

/// Returns the huge pages that fit in a line of `/proc/self/maps`, if that is large private memory
/// without a file.
fn range_of(line: &str) -> Option<Range<usize>> {
    let (memory, access, path) = map_entry(line)?;
    if access != "rw-p" || !path.is_empty() || memory.len() < MIN_BYTES {
        return None;
    }
    whole_pages(&memory)
}

/// Returns the huge pages that fit in a piece of memory; `None` if none does.
pub(super) fn whole_pages(memory: &Range<usize>) -> Option<Range<usize>> {
    Some(memory.start.next_multiple_of(HUGE_PAGE)..memory.end / HUGE_PAGE * HUGE_PAGE)
        .filter(|pages| !pages.is_empty())
}

/// Returns true if a whole page is in main memory, or enough of it if it holds cells.
fn is_worth_it(page: usize) -> bool {
    let memory = page..page + HUGE_PAGE;
    match zeroed::resident_bytes(&memory) {
        HUGE_PAGE => true,
        resident => resident >= ENOUGH && zeroed::contains(&memory),
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

    #[test]
    fn cells_are_moved_once_a_good_part_of_a_page_is_in_use() {
        let mut cells = vec![1_u8; 4 * HUGE_PAGE];
        // SAFETY: the memory is this test's, of a heap that has no file.
        assert!(unsafe { zeroed::clear(cells.as_mut_ptr().cast(), cells.len()) });
        let start = cells.as_ptr().addr().next_multiple_of(HUGE_PAGE) - cells.as_ptr().addr();
        let (first, second) = (start, start + HUGE_PAGE);
        let resident = |cells: &[u8], at: usize| {
            let page = cells.as_ptr().addr() + at;
            zeroed::resident_bytes(&(page..page + HUGE_PAGE))
        };
        let mut pages = HugePages::new(true);
        cells[first..first + ENOUGH].fill(2);
        cells[second..second + ENOUGH / 2].fill(2);
        while pages.move_some() {}
        // Where the system has none, the page stays as it was.
        let all = resident(&cells, first);
        assert!([ENOUGH, HUGE_PAGE].contains(&all), "{all}");
        assert_eq!(resident(&cells, second), ENOUGH / 2);
        cells[second..second + ENOUGH].fill(3);
        while pages.move_some() {}
        let all = resident(&cells, second);
        assert!([ENOUGH, HUGE_PAGE].contains(&all), "{all}");
        assert!(cells[first..first + ENOUGH].iter().all(|byte| *byte == 2));
        assert!(cells[first + ENOUGH..second].iter().all(|byte| *byte == 0));
        assert!(cells[second..second + ENOUGH].iter().all(|byte| *byte == 3));
        zeroed::freed(cells.as_mut_ptr().cast());
    }
}
