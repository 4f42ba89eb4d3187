//! Calls between ggml and the kernels, through `shim.cpp`. Pointers from there are checked and
//! become slices here.

use std::ffi::{c_int, c_void};
use std::iter;
use std::slice;

use graphmill_kernels::{Matmul, Output};
use llama_cpp_sys_2 as sys;

use super::panics::{guarded, guarded_in};
use super::{ATTACHED, Matrix, packed};

/// Size of a cache line, in bytes. Data in scratch memory begins at a multiple of it.
pub(super) const ALIGNMENT: usize = 64;

/// Mirrors `graphmill_matrix` of `shim.h`, field by field.
#[repr(C)]
pub(super) struct RawMatrix {
    ggml_type: i32,
    columns: i64,
    rows: i64,
    experts: i64,
}

/// Mirrors `graphmill_matmul` of `shim.h`, field by field.
#[repr(C)]
pub(super) struct RawMatmul {
    pub(super) matrix: RawMatrix,
    pub(super) packed: *const u8,
    activations: *const u8,
    pub(super) counts: [i64; 3],
    strides: [usize; 3],
    pub(super) out: *mut f32,
    scratch: *mut u8,
    scratch_bytes: usize,
    thread: i32,
    pub(super) threads: i32,
    pub(super) pool: *mut sys::ggml_threadpool,
}

unsafe extern "C" {
    fn graphmill_kernels_buffer_type() -> sys::ggml_backend_buffer_type_t;
    fn graphmill_kernels_attach() -> bool;
    pub(super) fn graphmill_kernels_stock_buffer_type(
        matmul: *mut sys::ggml_tensor,
    ) -> sys::ggml_backend_buffer_type_t;
    fn graphmill_kernels_next_share(pool: *mut sys::ggml_threadpool) -> c_int;
}

/// Adds the buffer type to ggml's list. Returns true if llama.cpp will use it.
pub(super) fn attach() -> bool {
    // SAFETY: called once, before anything computes, so that nobody reads the list meanwhile.
    unsafe { graphmill_kernels_attach() }
}

/// The buffer type of packed weights.
pub(super) fn buffer_type() -> sys::ggml_backend_buffer_type_t {
    // SAFETY: returns the address of a static.
    unsafe { graphmill_kernels_buffer_type() }
}

/// Returns the parts that this thread computes of a computation by a pool: each part goes to one
/// thread only.
///
/// # Safety
/// The pool must be computing it until the iterator ends.
pub(super) unsafe fn next_parts(
    pool: *mut sys::ggml_threadpool,
    count: usize,
) -> impl Iterator<Item = usize> {
    // SAFETY: as the caller promises.
    let next = move || unsafe { graphmill_kernels_next_share(pool) } as usize;
    iter::repeat_with(next).take_while(move |part| *part < count)
}

impl RawMatrix {
    pub(super) fn matrix(&self) -> Matrix {
        Matrix {
            ggml_type: self.ggml_type as sys::ggml_type,
            columns: usize::try_from(self.columns).unwrap_or(0),
            rows: usize::try_from(self.rows).unwrap_or(0),
            experts: usize::try_from(self.experts).unwrap_or(0),
        }
    }
}

/// Returns true if a matrix should be packed, of the model that this thread loads.
#[unsafe(no_mangle)]
extern "C" fn graphmill_kernels_takes(matrix: &RawMatrix) -> bool {
    guarded(|| packed::takes(matrix.matrix()))
}

/// Receives the memory in which the matrices of a model will be packed.
#[unsafe(no_mangle)]
extern "C" fn graphmill_kernels_allocated(first: *const c_void, bytes: usize) {
    guarded(|| packed::allocated(first.cast(), bytes));
}

/// Returns the size of a packed matrix in bytes; 0 if it is left to ggml.
#[unsafe(no_mangle)]
extern "C" fn graphmill_kernels_packed_bytes(matrix: &RawMatrix) -> usize {
    guarded(|| matrix.matrix().packed_bytes().unwrap_or(0))
}

/// Packs a matrix.
///
/// # Safety
/// `source` has `in_file` bytes, and `packed` as many as [`graphmill_kernels_packed_bytes`] says.
#[unsafe(no_mangle)]
unsafe extern "C" fn graphmill_kernels_pack(
    matrix: &RawMatrix,
    source: *const c_void,
    in_file: usize,
    packed: *mut c_void,
) {
    guarded(|| {
        let matrix = matrix.matrix();
        let (Some(kernels), Some(format), Some(bytes)) =
            (ATTACHED.get(), matrix.format(), matrix.packed_bytes())
        else {
            return; // a buffer of this type is only for matrices that were taken
        };
        // SAFETY: as the caller promises; ggml has set aside the bytes at `packed` for this matrix
        // alone.
        let (source, packed) = unsafe {
            (
                slice::from_raw_parts(source.cast::<u8>(), in_file),
                slice::from_raw_parts_mut(packed.cast::<u8>(), bytes),
            )
        };
        packed::prepare(packed);
        packed::pack(*kernels, format, matrix, source, packed);
        packed::count(bytes, in_file);
    });
}

/// Returns the size of the scratch memory for a product, in bytes, by its number of quantized
/// activations.
#[unsafe(no_mangle)]
extern "C" fn graphmill_kernels_scratch_bytes(matrix: &RawMatrix, activations: i64) -> usize {
    guarded(|| {
        let activations = usize::try_from(activations).unwrap_or(0);
        matrix.matrix().activation_bytes() * activations + ALIGNMENT
    })
}

impl RawMatmul {
    pub(super) fn activations(&self) -> usize {
        let counts = self.counts.into_iter();
        let counts = counts.map(|count| usize::try_from(count).unwrap_or(0));
        counts.product()
    }

    /// Returns the start of the quantized activations.
    pub(super) fn scratch(&self) -> *mut u8 {
        let skipped = self.scratch.align_offset(ALIGNMENT);
        let needed = self.activations() * self.matrix.matrix().activation_bytes();
        assert!(
            skipped + needed <= self.scratch_bytes,
            "room for activations"
        );
        self.scratch.wrapping_add(skipped)
    }

    /// Returns the address of an activation, by its number over all dimensions.
    fn activation(&self, number: usize) -> *const f32 {
        let (rows, planes) = (self.counts[0] as usize, self.counts[1] as usize);
        let [row, plane, block] = self.strides;
        let offset =
            number % rows * row + number / rows % planes * plane + number / rows / planes * block;
        self.activations.wrapping_add(offset).cast()
    }

    /// The activations that this thread quantizes.
    fn share(&self) -> std::ops::Range<usize> {
        let (thread, threads) = (self.thread as usize, self.threads as usize);
        let activations = self.activations();
        activations * thread / threads..activations * (thread + 1) / threads
    }
}

/// Quantizes this thread's share of the activations.
///
/// # Safety
/// The product is as ggml describes it for the calling thread, and nobody else uses the scratch
/// memory.
#[unsafe(no_mangle)]
unsafe extern "C" fn graphmill_kernels_quantize(matmul: &RawMatmul) {
    guarded_in(matmul.pool, || {
        let matrix = matmul.matrix.matrix();
        let (Some(kernels), Some(format)) = (ATTACHED.get(), matrix.format()) else {
            return;
        };
        let (bytes, scratch) = (matrix.activation_bytes(), matmul.scratch());
        for number in matmul.share() {
            // SAFETY: each activation has a column for each of the matrix, side by side, and each
            // its own place in the scratch memory, which has room for all (`scratch` has asserted
            // it); other threads have other numbers.
            let (source, quantized) = unsafe {
                (
                    slice::from_raw_parts(matmul.activation(number), matrix.columns),
                    slice::from_raw_parts_mut(scratch.add(number * bytes), bytes),
                )
            };
            kernels.quantize(format, matrix.columns, source, quantized);
        }
    });
}

/// Computes parts of the product until none is left.
///
/// # Safety
/// As [`graphmill_kernels_quantize`], which has returned on all threads.
#[unsafe(no_mangle)]
unsafe extern "C" fn graphmill_kernels_multiply(matmul: &RawMatmul) {
    guarded_in(matmul.pool, || {
        let matrix = matmul.matrix.matrix();
        let (Some(kernels), Some(format), Some(packed_bytes)) =
            (ATTACHED.get(), matrix.format(), matrix.packed_bytes())
        else {
            return;
        };
        let tokens = matmul.activations();
        // SAFETY: the packed weights are as long as was asked for, and are not written any more.
        // The activations are in the scratch memory, which nobody writes until the product is done.
        // The result has a row of `matrix.rows` numbers for each of them.
        let (panels, activations, out) = unsafe {
            (
                slice::from_raw_parts(matmul.packed, packed_bytes),
                slice::from_raw_parts(matmul.scratch(), tokens * matrix.activation_bytes()),
                Output::new(matmul.out, tokens * matrix.rows, matrix.rows),
            )
        };
        let work = Matmul {
            format,
            rows: matrix.rows,
            cols: matrix.columns,
            panels,
            tokens,
            activations,
        };
        let parts = kernels.parts(matrix.rows, tokens, matmul.threads as usize);
        // SAFETY: the pool is computing this product, and gives each part to one thread only.
        unsafe {
            for part in next_parts(matmul.pool, parts) {
                kernels.multiply(&work, out, part, parts);
            }
        }
    });
}
