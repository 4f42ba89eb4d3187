//! Tensors of ggml that belong to no model.

use std::ptr::{self, NonNull};

use llama_cpp_sys_2 as sys;

/// Memory of ggml for tensors, freed when it is dropped.
pub(super) struct Tensors {
    pub(super) context: NonNull<sys::ggml_context>,
    /// The buffer of tensors that are not in the context's own memory.
    buffer: sys::ggml_backend_buffer_t,
}

impl Tensors {
    /// Allocates `bytes` for tensors, including their data unless `no_alloc`; `None` if there is
    /// not enough memory.
    pub(super) fn new(bytes: usize, no_alloc: bool) -> Option<Self> {
        let params = sys::ggml_init_params {
            mem_size: bytes,
            mem_buffer: ptr::null_mut(),
            no_alloc,
        };
        // SAFETY: ggml allocates the memory itself.
        let context = NonNull::new(unsafe { sys::ggml_init(params) })?;
        Some(Self {
            context,
            buffer: ptr::null_mut(),
        })
    }

    /// Adds a tensor of several matrices, given by columns, rows and their number. ggml ends the
    /// process if the memory is too small for it.
    pub(super) fn tensor(
        &self,
        ggml_type: sys::ggml_type,
        shape: [usize; 3],
    ) -> *mut sys::ggml_tensor {
        let [columns, rows, count] = shape.map(|size| size as i64);
        // SAFETY: the context is alive.
        unsafe { sys::ggml_new_tensor_3d(self.context.as_ptr(), ggml_type, columns, rows, count) }
    }

    /// Adds a tensor of floating point and writes these numbers to it, rounded to its type.
    ///
    /// # Panics
    /// If the numbers are too few or too many, or the tensor's data is not in the context.
    pub(super) fn filled(
        &self,
        ggml_type: sys::ggml_type,
        shape: [usize; 3],
        numbers: &[f32],
    ) -> *mut sys::ggml_tensor {
        let tensor = self.tensor(ggml_type, shape);
        let [columns, rows, count] = shape;
        assert_eq!(numbers.len(), columns * rows * count, "a number each");
        // SAFETY: the tensor has memory for as many numbers.
        unsafe {
            let data = sys::ggml_get_data(tensor);
            assert!(!data.is_null(), "memory for the numbers");
            let (rows, columns) = ((rows * count) as i64, columns as i64);
            let first = numbers.as_ptr();
            sys::ggml_quantize_chunk(ggml_type, first, data, 0, rows, columns, ptr::null());
        }
        tensor
    }

    /// Allocates a buffer for the data of all tensors; `None` if there is not enough memory.
    pub(super) fn allocate(&mut self, buffer_type: sys::ggml_backend_buffer_type_t) -> Option<()> {
        let context = self.context.as_ptr();
        // SAFETY: the context is alive, and a buffer type lives as long as the process.
        self.buffer =
            unsafe { sys::ggml_backend_alloc_ctx_tensors_from_buft(context, buffer_type) };
        (!self.buffer.is_null()).then_some(())
    }
}

impl Drop for Tensors {
    fn drop(&mut self) {
        // SAFETY: both are alive (a null buffer is allowed), and nothing uses them after this.
        unsafe {
            sys::ggml_backend_buffer_free(self.buffer);
            sys::ggml_free(self.context.as_ptr());
        }
    }
}

/// Returns numbers from -1 to 1 without a pattern, the same for the same seed.
pub(super) fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}
