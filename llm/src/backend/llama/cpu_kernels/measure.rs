//! Measured times of single products, by the kernels and by llama.cpp.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::time::{Duration, Instant};

use llama_cpp_sys_2 as sys;

use super::tensors::{Tensors, numbers};
use super::{FORMATS, Matrix, calls};

/// Size of weights that exceeds every processor cache, in bytes.
const COLD: usize = 256 << 20;
/// Maximum number of matrices in a measurement.
const MAX_MATRICES: usize = 512;
/// Time for which a product is repeated.
const TIME: Duration = Duration::from_millis(400);
/// Number of activations with which llama.cpp looks for a buffer type that multiplies a matrix.
const ACTIVATIONS_ASKED: usize = 512;

/// A product of a matrix of weights and activations of 32-bit floats.
#[derive(Clone, Debug)]
pub struct MeasuredMatmul {
    /// Name of the weights' type, such as `Q8_0`.
    pub format: String,
    /// Rows of the matrix: the numbers in a result.
    pub rows: usize,
    /// Columns of the matrix: the numbers in an activation.
    pub columns: usize,
    /// Number of activations that the matrix is multiplied by.
    pub activations: usize,
    /// Number of threads that compute.
    pub threads: u32,
}

/// Result of a measurement.
#[derive(Clone, Debug)]
pub struct MatmulTime {
    /// Duration of a product in seconds: the median of several rounds over matrices that no cache
    /// holds.
    pub seconds: f64,
    /// Name of the buffer type in which ggml keeps the weights.
    pub buffer_type: String,
}

/// Measures a product, computed by the kernels or by llama.cpp without them.
///
/// # Errors
/// If the type does not exist, the sizes are zero or do not fit it, the kernels do not support the
/// matrix, or there is not enough memory.
pub(crate) fn matmul_time(matmul: &MeasuredMatmul, kernels: bool) -> Result<MatmulTime, String> {
    let matrix = |(ggml_type, _)| Matrix {
        ggml_type,
        columns: matmul.columns,
        rows: matmul.rows,
        experts: 1,
    };
    let mut types = FORMATS.into_iter().map(matrix);
    let matrix = types
        .find(|matrix| matrix.type_name() == matmul.format)
        .ok_or_else(|| format!("unknown type `{}`", matmul.format))?;
    // SAFETY: the type is one of ggml's.
    let block = unsafe { sys::ggml_blck_size(matrix.ggml_type) } as usize;
    if matmul.rows * matmul.columns * matmul.activations == 0
        || !matmul.columns.is_multiple_of(block)
    {
        return Err(format!(
            "{} x {} is not a valid matrix of {}",
            matmul.rows, matmul.columns, matmul.format
        ));
    }
    let memory = || "not enough memory".to_owned();
    let buffer_type = if !kernels {
        stock_buffer_type(matrix).ok_or_else(memory)?
    } else if matrix.packed_bytes().is_some() {
        calls::buffer_type()
    } else {
        return Err("the kernels do not support this matrix".to_owned());
    };
    // SAFETY: the buffer type lives as long as the process, and so does its name.
    let name = unsafe { CStr::from_ptr(sys::ggml_backend_buft_name(buffer_type)) };
    Ok(MatmulTime {
        seconds: measure(matrix, matmul, buffer_type).ok_or_else(memory)?,
        buffer_type: name.to_string_lossy().into_owned(),
    })
}

/// Returns the duration of a product in seconds with weights in this buffer type; `None` if there
/// is not enough memory.
fn measure(
    matrix: Matrix,
    matmul: &MeasuredMatmul,
    buffer_type: sys::ggml_backend_buffer_type_t,
) -> Option<f64> {
    let (columns, rows) = (matrix.columns, matrix.rows);
    // SAFETY: asks for sizes.
    let (row_bytes, tensor_bytes) = unsafe {
        (
            sys::ggml_row_size(matrix.ggml_type, columns as i64),
            sys::ggml_tensor_overhead(),
        )
    };
    let in_file = row_bytes * rows;
    let copies = COLD.div_ceil(in_file).min(MAX_MATRICES);
    let mut weights = Tensors::new(copies * tensor_bytes, true)?;
    let matrices: Vec<_> = (0..copies)
        .map(|_| weights.tensor(matrix.ggml_type, [columns, rows, 1]))
        .collect();
    let values = numbers(columns * rows, 2);
    let mut file = vec![0_u8; in_file];
    let mut input = numbers(columns * matmul.activations, 1);
    let mut output = vec![0_f32; rows * matmul.activations];
    let nodes = 2 * copies + 2;
    // SAFETY: asks for a size.
    let graph_bytes = unsafe { sys::ggml_graph_overhead_custom(nodes, false) };
    let matmuls = Tensors::new(graph_bytes + (copies + 1) * tensor_bytes, true)?;
    let activations = matmuls.tensor(sys::GGML_TYPE_F32, [columns, matmul.activations, 1]);
    // SAFETY: the contexts have room for these tensors and the graph, and live until the end.
    // Weights get memory from their buffer type; activations and results have that of the vectors,
    // which are as long and live as long. Products are computed one after the other, so that they
    // may share their results' memory.
    unsafe {
        weights.allocate(buffer_type)?;
        sys::ggml_quantize_chunk(
            matrix.ggml_type,
            values.as_ptr(),
            file.as_mut_ptr().cast(),
            0,
            rows as i64,
            columns as i64,
            ptr::null(),
        );
        (*activations).data = input.as_mut_ptr().cast();
        let graph = sys::ggml_new_graph_custom(matmuls.context.as_ptr(), nodes, false);
        for matrix in matrices {
            sys::ggml_backend_tensor_set(matrix, file.as_ptr().cast(), 0, in_file);
            let matmul = sys::ggml_mul_mat(matmuls.context.as_ptr(), matrix, activations);
            (*matmul).data = output.as_mut_ptr().cast();
            sys::ggml_build_forward_expand(graph, matmul);
        }
        let mut plan = sys::ggml_graph_plan(graph, matmul.threads as i32, ptr::null_mut());
        let mut work = vec![0_u8; plan.work_size];
        plan.work_data = work.as_mut_ptr();
        rounds(|| sys::ggml_graph_compute(graph, &raw mut plan) == sys::GGML_STATUS_SUCCESS)
            .map(|seconds| seconds / copies as f64)
    }
}

/// Returns the median duration of a round in seconds, after a warm-up round; `None` if one fails.
fn rounds(mut round: impl FnMut() -> bool) -> Option<f64> {
    let mut times = Vec::new();
    round().then_some(())?;
    let begun = Instant::now();
    while begun.elapsed() < TIME || times.len() < 3 {
        let start = Instant::now();
        round().then_some(())?;
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Some(times[times.len() / 2])
}

/// Returns the buffer type that llama.cpp chooses for a matrix without the kernels; `None` if there
/// is not enough memory.
fn stock_buffer_type(matrix: Matrix) -> Option<sys::ggml_backend_buffer_type_t> {
    // SAFETY: the CPU backend is there, and its first device. The function of that name is of that
    // type, and its list ends with a null.
    unsafe {
        let backend = sys::ggml_backend_cpu_reg();
        let device = sys::ggml_backend_reg_dev_get(backend, 0);
        let list = sys::ggml_backend_reg_get_proc_address(
            backend,
            c"ggml_backend_dev_get_extra_bufts".as_ptr(),
        );
        let list =
            std::mem::transmute::<*mut c_void, sys::ggml_backend_dev_get_extra_bufts_t>(list);
        let mut listed = list.map_or(ptr::null_mut(), |list| list(device));
        while !listed.is_null() && !(*listed).is_null() {
            if *listed != calls::buffer_type() && takes(*listed, device, matrix)? {
                return Some(*listed);
            }
            listed = listed.add(1);
        }
        Some(sys::ggml_backend_cpu_buffer_type())
    }
}

/// Returns true if a buffer type has its own product for a matrix; `None` without memory.
///
/// # Safety
/// The buffer type is of the device.
unsafe fn takes(
    buffer_type: sys::ggml_backend_buffer_type_t,
    device: sys::ggml_backend_dev_t,
    matrix: Matrix,
) -> Option<bool> {
    // SAFETY: the context has room for three tensors, which have no data. The weights have a buffer
    // of no bytes while the question is asked, as llama.cpp asks it.
    unsafe {
        let mut tensors = Tensors::new(3 * sys::ggml_tensor_overhead(), true)?;
        let weights = tensors.tensor(matrix.ggml_type, [matrix.columns, matrix.rows, 1]);
        let activations =
            tensors.tensor(sys::GGML_TYPE_F32, [matrix.columns, ACTIVATIONS_ASKED, 1]);
        let matmul = sys::ggml_mul_mat(tensors.context.as_ptr(), weights, activations);
        tensors.buffer = sys::ggml_backend_buft_alloc_buffer(buffer_type, 0);
        (*weights).buffer = tensors.buffer;
        Some(!tensors.buffer.is_null() && sys::ggml_backend_dev_supports_op(device, matmul))
    }
}
