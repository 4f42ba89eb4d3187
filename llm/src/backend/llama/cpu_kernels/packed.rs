//! Packing weights while a model loads, and counting what was packed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::thread;

use graphmill_kernels::{Format, Kernels};

use super::Matrix;
use super::new_pages::NewPages;

/// Weights of fewer bytes are packed by the thread that loads them.
const MIN_BYTES_FOR_THREADS: usize = 1 << 20;
/// More threads than that wait for memory.
const MAX_THREADS: usize = 8;

thread_local! {
    /// The model that this thread is loading for the kernels.
    static LOADING: RefCell<Option<Loading>> = const { RefCell::new(None) };
}

#[derive(Default)]
struct Loading {
    /// The pages of packed matrices, if these are to be huge.
    pages: Option<NewPages>,
    /// What was packed so far.
    packed: Packed,
}

/// The matrices of a model, by who multiplies them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packed {
    /// Matrices that are packed for the kernels.
    pub(crate) matrices: u32,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Their bytes in the file.
    pub(crate) in_file: u64,
    /// Matrices that are left to llama.cpp, by their type.
    pub(crate) left: BTreeMap<String, u32>,
}

/// From here on, this thread loads a model for the kernels.
pub(super) fn begin(huge_pages: bool) {
    LOADING.set(Some(Loading {
        pages: huge_pages.then(NewPages::default),
        packed: Packed::default(),
    }));
}

/// The model is loaded.
pub(super) fn end() -> Packed {
    LOADING.take().unwrap_or_default().packed
}

/// Memory was set aside for the matrices of the model that is being loaded.
pub(super) fn allocated(first: *const u8, bytes: usize) {
    with_pages(|pages| pages.expect(first, bytes));
}

/// A matrix of the model that is being loaded comes to this memory, which has nothing in it yet.
pub(super) fn comes(memory: &mut [u8]) {
    with_pages(|pages| pages.fill(memory));
}

fn with_pages(call: impl FnOnce(&mut NewPages)) {
    LOADING.with_borrow_mut(|loading| {
        if let Some(pages) = loading.as_mut().and_then(|loading| loading.pages.as_mut()) {
            call(pages);
        }
    });
}

/// Says whether a matrix of the model that is being loaded should be packed.
pub(super) fn takes(matrix: Matrix) -> bool {
    let takes = matrix.packed_bytes().is_some();
    if !takes {
        leaves(matrix);
    }
    takes && LOADING.with_borrow(Option::is_some)
}

/// Counts a matrix of the model that is being loaded as one that is left to llama.cpp.
pub(super) fn leaves(matrix: Matrix) {
    LOADING.with_borrow_mut(|loading| {
        if let Some(Loading { packed, .. }) = loading {
            *packed.left.entry(matrix.type_name()).or_default() += 1;
        }
    });
}

/// Counts a matrix that was packed.
pub(super) fn count(bytes: usize, in_file: usize) {
    LOADING.with_borrow_mut(|loading| {
        if let Some(Loading { packed, .. }) = loading {
            packed.matrices += 1;
            packed.bytes += bytes as u64;
            packed.in_file += in_file as u64;
        }
    });
}

/// Packs a matrix, on several threads if it is large.
pub(super) fn pack(
    kernels: Kernels,
    format: Format,
    columns: usize,
    source: &[u8],
    packed: &mut [u8],
) {
    let rows = source.len() / format.row_bytes(columns);
    let panels = rows.div_ceil(kernels.panel_rows());
    let threads = if source.len() < MIN_BYTES_FOR_THREADS {
        1
    } else {
        thread::available_parallelism()
            .map_or(1, std::num::NonZero::get)
            .min(MAX_THREADS)
    };
    let share = panels.div_ceil(threads);
    let share_rows = share * kernels.panel_rows();
    let sources = source.chunks(share_rows * format.row_bytes(columns));
    let shares = packed.chunks_mut(share * (packed.len() / panels));
    thread::scope(|scope| {
        let mut pairs = sources.zip(shares);
        let own = pairs.next();
        for (source, packed) in pairs {
            scope.spawn(move || kernels.pack(format, columns, source, packed));
        }
        if let Some((source, packed)) = own {
            kernels.pack(format, columns, source, packed);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_pack_what_one_would() {
        let (rows, columns) = (3001, 512);
        for kernels in Kernels::all() {
            let format = Format::Q8_0;
            let source: Vec<u8> = (0..rows * format.row_bytes(columns))
                .map(|index| (index * 7 % 251) as u8)
                .collect();
            assert!(source.len() > MIN_BYTES_FOR_THREADS);
            let bytes = kernels
                .packed_bytes(format, rows, columns)
                .expect("a kernel");
            let (mut alone, mut shared) = (vec![0; bytes], vec![1; bytes]);
            kernels.pack(format, columns, &source, &mut alone);
            pack(kernels, format, columns, &source, &mut shared);
            assert!(alone == shared, "{}", kernels.name());
        }
    }
}
