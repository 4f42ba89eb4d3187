//! Large buffers of main memory that read as zeros without being written. llama.cpp zeroes the
//! cells of a context when it creates them, and a start would wait until the system has found
//! memory for all of them. Instead, the system is told to discard the buffer's content, and finds
//! memory at the first use. The buffer still counts as taken.
//!
//! `buffers.rs` reports when a buffer is zeroed or freed.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::sync::{LazyLock, Mutex};

use super::super::ffi::advise;
use super::huge_pages::whole_pages;
use super::new_pages::HUGE_PAGE;
use crate::lock::lock;

/// Minimum size of a buffer that is not written, in bytes.
const MIN_BYTES: usize = HUGE_PAGE;
/// Size of the smallest possible page, in bytes.
const MIN_PAGE: usize = 4 << 10;

/// Size of this system's pages, in bytes.
static PAGE: LazyLock<usize> = LazyLock::new(|| {
    // SAFETY: the call reads its argument alone.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(MIN_PAGE)
});

/// Whole pages of the buffers that were zeroed without being written.
static ZEROED: Mutex<Vec<Range<usize>>> = Mutex::new(Vec::new());

/// Returns the bytes of such buffers that have no memory yet. The memory available to others is
/// smaller by this number.
pub(crate) fn unused_bytes() -> u64 {
    lock(&ZEROED).iter().map(unused_bytes_of).sum()
}

fn unused_bytes_of(pages: &Range<usize>) -> u64 {
    let pieces = pages.clone().step_by(HUGE_PAGE);
    let pieces = pieces.map(|start| start..pages.end.min(start + HUGE_PAGE));
    pieces
        .map(|piece| (piece.len() - resident_bytes(&piece)) as u64)
        .sum()
}

/// Returns the huge pages that fit in such buffers.
pub(super) fn cells() -> Vec<Range<usize>> {
    lock(&ZEROED).iter().filter_map(whole_pages).collect()
}

/// Returns true if some memory is in such a buffer.
pub(super) fn contains(memory: &Range<usize>) -> bool {
    let contains = |pages: &Range<usize>| pages.start <= memory.start && memory.end <= pages.end;
    lock(&ZEROED).iter().any(contains)
}

/// Returns the bytes of a piece of memory that are in main memory. The piece is whole pages, and at
/// most a huge one.
pub(super) fn resident_bytes(memory: &Range<usize>) -> usize {
    let mut states = [0_u8; HUGE_PAGE / MIN_PAGE];
    assert!(memory.len() <= HUGE_PAGE, "the states have room");
    // SAFETY: the call reads the state of pages and writes one byte for each, for which there is
    // room; where nothing is mapped any more, it fails.
    let result = unsafe {
        libc::mincore(
            memory.start as *mut c_void,
            memory.len(),
            states.as_mut_ptr().cast(),
        )
    };
    let resident = states.iter().filter(|state| **state & 1 == 1).count();
    if result == 0 { resident * *PAGE } else { 0 }
}

/// Makes a large buffer read as zeros. Returns false if it is small or the system could not.
///
/// # Safety
/// The memory must be private to the process, belong to no file, and nobody else may use it
/// meanwhile.
pub(super) unsafe fn clear(first: *mut c_void, bytes: usize) -> bool {
    if bytes < MIN_BYTES {
        return false;
    }
    let (start, end) = (first.addr(), first.addr() + bytes);
    let pages = start.next_multiple_of(*PAGE)..end / *PAGE * *PAGE;
    if pages.is_empty() {
        return false;
    }
    // SAFETY: the pages are the caller's; private ones that belong to no file read as zeros after
    // this.
    if let Err(error) = unsafe { advise(&pages, libc::MADV_DONTNEED) } {
        tracing::debug!("a buffer is zeroed by writing it: {error}");
        return false;
    }
    // SAFETY: both are parts of the caller's memory, in front of the whole pages and behind them.
    unsafe {
        ptr::write_bytes(first.cast::<u8>(), 0, pages.start - start);
        ptr::write_bytes(pages.end as *mut u8, 0, end - pages.end);
    }
    let mut zeroed = lock(&ZEROED);
    zeroed.retain(|known| known.start != pages.start);
    zeroed.push(pages);
    true
}

/// Forgets a buffer that is about to be freed.
pub(super) fn freed(first: *mut c_void) {
    let start = first.addr().next_multiple_of(*PAGE);
    lock(&ZEROED).retain(|known| known.start != start);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::backend::interface::{Adapters, BatchToken, Slot};
    use crate::settings::LlmEngineSpec;

    /// One test at a time: what they look at is the sum of the process.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn cells_take_memory_when_they_are_used_and_not_while_the_engine_is_idle() {
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf");
        let _alone = ALONE.lock();
        let mut spec = LlmEngineSpec::new(&model);
        spec.cache_size = 1;
        spec.max_num_seqs = 256;
        let prompt: Vec<_> = (0..64)
            .map(|position| BatchToken {
                token: 300 + position as i32,
                position,
                slot: Slot(0),
                logits: position == 63,
                hidden: false,
                adapters: Adapters::default(),
            })
            .collect();
        crate::backend::llama::open(&spec, &mut |loaded| {
            let backend = loaded.backend;
            // Of all that the tests of this process have, these cells are the most.
            let largest = lock(&ZEROED)
                .iter()
                .max_by_key(|pages| pages.len())
                .cloned();
            let cells = largest.expect("the cells were zeroed");
            let unused = unused_bytes_of(&cells);
            assert!(unused_bytes() >= unused);
            assert!(unused >= MIN_BYTES as u64, "{unused}");
            backend.decode(&prompt).expect("it computes");
            let expected = backend.logits().to_vec();
            let left = unused_bytes_of(&cells);
            assert!(left < unused);
            while backend.tidy() {}
            assert_eq!(unused_bytes_of(&cells), left);
            backend.clear();
            backend.decode(&prompt).expect("it computes");
            assert_eq!(backend.logits(), expected);
        })
        .expect("the model loads");
    }

    #[test]
    fn a_cleared_buffer_reads_as_zeros_and_counts_until_it_is_used() {
        let _alone = ALONE.lock();
        let mut buffer = vec![7_u8; 3 * HUGE_PAGE + 5];
        let first = buffer.as_mut_ptr();
        // SAFETY: the buffer is this test's, of a heap that has no file.
        let cleared = unsafe { clear(first.cast(), buffer.len()) };
        assert!(cleared);
        let start = first.addr().next_multiple_of(*PAGE);
        let pages = start..start + 2 * HUGE_PAGE;
        assert!(contains(&pages));
        assert_eq!(unused_bytes_of(&pages), pages.len() as u64);
        assert!(unused_bytes() >= pages.len() as u64);
        assert!(buffer.iter().all(|byte| *byte == 0));
        buffer.fill(1);
        assert_eq!(unused_bytes_of(&pages), 0);
        freed(first.cast());
        assert!(!contains(&pages));
    }
}
