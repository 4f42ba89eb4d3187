//! Packing weights while a model loads, and counting what was packed.

use std::cell::RefCell;
use std::thread;

use graphmill_kernels::{Format, Kernels};

use super::super::model::PackCounts;
use super::new_pages::NewPages;
use super::{ATTACHED, Matrix};

/// Minimum size of weights that several threads pack, in bytes.
const MIN_BYTES_FOR_THREADS: usize = 1 << 20;
/// Maximum number of threads that pack. More would only wait for memory.
const MAX_THREADS: usize = 8;

thread_local! {
    /// The model that this thread is loading for the kernels.
    static LOADING: RefCell<Option<ModelLoad>> = const { RefCell::new(None) };
}

#[derive(Default)]
struct ModelLoad {
    /// The pages of packed matrices, if they should be huge.
    pages: Option<NewPages>,
    /// Counts of the matrices packed so far.
    packed: PackCounts,
}

/// Begins a load on this thread, with weights packed for the kernels.
pub(super) fn begin(huge_pages: bool) {
    let mut load = ModelLoad {
        pages: huge_pages.then(NewPages::default),
        ..ModelLoad::default()
    };
    load.packed.info.instructions = ATTACHED.get().map_or("", Kernels::name);
    LOADING.set(Some(load));
}

/// Ends the load on this thread and returns its counts.
pub(super) fn end() -> PackCounts {
    LOADING.take().unwrap_or_default().packed
}

/// Notes memory that was allocated for the matrices of the model that is being loaded.
pub(super) fn allocated(first: *const u8, bytes: usize) {
    with_pages(|pages| pages.expect(first, bytes));
}

/// Prepares the empty memory that a matrix of the model is written to next.
pub(super) fn prepare(memory: &mut [u8]) {
    with_pages(|pages| pages.fill(memory));
}

fn with_pages(call: impl FnOnce(&mut NewPages)) {
    LOADING.with_borrow_mut(|loading| {
        if let Some(pages) = loading.as_mut().and_then(|loading| loading.pages.as_mut()) {
            call(pages);
        }
    });
}

/// Returns true if a matrix of the model that is being loaded should be packed.
pub(super) fn takes(matrix: Matrix) -> bool {
    let takes = matrix.packed_bytes().is_some();
    LOADING.with_borrow_mut(|loading| {
        let Some(ModelLoad { packed, .. }) = loading else {
            return false;
        };
        if !takes {
            *packed.info.left.entry(matrix.type_name()).or_default() += 1;
        }
        takes
    })
}

/// Counts a matrix that was packed.
pub(super) fn count(bytes: usize, in_file: usize) {
    LOADING.with_borrow_mut(|loading| {
        if let Some(ModelLoad { packed, .. }) = loading {
            packed.info.matrices += 1;
            packed.info.bytes += bytes as u64;
            packed.in_file += in_file as u64;
        }
    });
}

/// Packs a matrix or those of experts, on several threads if they are large.
pub(super) fn pack(
    kernels: Kernels,
    format: Format,
    matrix: Matrix,
    source: &[u8],
    packed: &mut [u8],
) {
    // Units that are packed separately: a panel, or an expert, whose last panel may have fewer
    // rows.
    let (units, unit_rows) = match matrix.experts {
        1 => {
            let rows = kernels.panel_rows();
            (matrix.rows.div_ceil(rows), rows)
        }
        experts => (experts, matrix.rows),
    };
    let source_bytes = unit_rows * format.row_bytes(matrix.columns);
    let packed_bytes = packed.len() / units;
    let pack = |source: &[u8], packed: &mut [u8]| {
        let sources = source.chunks(source_bytes);
        for (source, packed) in sources.zip(packed.chunks_mut(packed_bytes)) {
            kernels.pack(format, matrix.columns, source, packed);
        }
    };
    let threads = if source.len() < MIN_BYTES_FOR_THREADS {
        1
    } else {
        thread::available_parallelism()
            .map_or(1, std::num::NonZero::get)
            .min(MAX_THREADS)
    };
    let share = units.div_ceil(threads);
    let sources = source.chunks(share * source_bytes);
    let shares = packed.chunks_mut(share * packed_bytes);
    thread::scope(|scope| {
        let mut pairs = sources.zip(shares);
        let own = pairs.next();
        for (source, packed) in pairs {
            scope.spawn(move || pack(source, packed));
        }
        if let Some((source, packed)) = own {
            pack(source, packed);
        }
    });
}

#[cfg(test)]
mod tests {
    use llama_cpp_sys_2 as sys;

    use super::*;

    /// A matrix, or those of experts, whose last panels lack rows.
    fn check(rows: usize, experts: usize) {
        let format = Format::Q8_0;
        let matrix = Matrix {
            ggml_type: sys::GGML_TYPE_Q8_0,
            columns: 512,
            rows,
            experts,
        };
        for kernels in Kernels::all() {
            let source: Vec<u8> = (0..experts * rows * format.row_bytes(matrix.columns))
                .map(|index| (index * 7 % 251) as u8)
                .collect();
            assert!(source.len() > MIN_BYTES_FOR_THREADS);
            let bytes = kernels.packed_bytes(format, rows, matrix.columns);
            let bytes = bytes.expect("a kernel");
            let (mut alone, mut shared) = (vec![0; experts * bytes], vec![1; experts * bytes]);
            let sources = source.chunks(rows * format.row_bytes(matrix.columns));
            for (source, packed) in sources.zip(alone.chunks_mut(bytes)) {
                kernels.pack(format, matrix.columns, source, packed);
            }
            pack(kernels, format, matrix, &source, &mut shared);
            assert!(alone == shared, "{}", kernels.name());
        }
    }

    #[test]
    fn threads_pack_what_one_would() {
        check(3001, 1);
    }

    #[test]
    fn experts_are_packed_each_by_itself() {
        check(99, 33);
    }
}
