//! Single products as the kernels and llama.cpp compute them, for measurements.

use std::ffi::CStr;
use std::ptr;

use llama_cpp_sys_2 as sys;

use super::tensors::{Tensors, numbers};
use super::{FORMATS, Matrix, calls};

/// Size of weights that exceeds every processor cache, in bytes.
const COLD: usize = 256 << 20;
/// Maximum number of matrices in a measurement.
const MAX_MATRICES: usize = 512;

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

/// Has `measure` time a product, computed by the kernels or by llama.cpp without them. It gets the
/// number of matrices in a round, and computes a round by a call. Also returns the name of the
/// buffer type in which ggml keeps the weights.
///
/// # Errors
/// If the type does not exist, the sizes are zero or do not fit it, the kernels do not support the
/// matrix, or there is not enough memory.
pub(crate) fn measure_matmul<T>(
    matmul: &MeasuredMatmul,
    kernels: bool,
    measure: impl FnOnce(usize, &mut dyn FnMut()) -> T,
) -> Result<(T, String), String> {
    let matrix = |(ggml_type, _)| Matrix {
        ggml_type,
        columns: matmul.columns,
        rows: matmul.rows,
        experts: 1,
    };
    let matrix = FORMATS
        .into_iter()
        .map(matrix)
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
    if kernels && matrix.packed_bytes().is_none() {
        return Err("the kernels do not support this matrix".to_owned());
    }
    rounds(matrix, matmul, kernels, measure).ok_or_else(|| "not enough memory".to_owned())
}

/// Has a valid product measured, with matrices that no cache holds; `None` if there is not enough
/// memory.
fn rounds<T>(
    matrix: Matrix,
    matmul: &MeasuredMatmul,
    kernels: bool,
    measure: impl FnOnce(usize, &mut dyn FnMut()) -> T,
) -> Option<(T, String)> {
    let (columns, rows) = (matrix.columns, matrix.rows);
    let shape = [columns, rows, 1];
    // SAFETY: asks for sizes.
    let (row_bytes, tensor_bytes) = unsafe {
        (
            sys::ggml_row_size(matrix.ggml_type, columns as i64),
            sys::ggml_tensor_overhead(),
        )
    };
    let in_file = row_bytes * rows;
    let copies = COLD.div_ceil(in_file).min(MAX_MATRICES);
    let floats = (columns + rows) * matmul.activations;
    let data = Tensors::new(in_file + 4 * floats + 4 * tensor_bytes, false)?;
    let file = data.filled(matrix.ggml_type, shape, &numbers(columns * rows, 2));
    let input = numbers(columns * matmul.activations, 1);
    let input = data.filled(sys::GGML_TYPE_F32, [columns, matmul.activations, 1], &input);
    let output = data.tensor(sys::GGML_TYPE_F32, [rows, matmul.activations, 1]);
    let mut weights = Tensors::new(copies * tensor_bytes, true)?;
    let nodes = 2 * copies + 2;
    // SAFETY: asks for a size.
    let graph_bytes = unsafe { sys::ggml_graph_overhead_custom(nodes, false) };
    let matmuls = Tensors::new(graph_bytes + copies * tensor_bytes, true)?;
    let context = matmuls.context.as_ptr();
    // SAFETY: the contexts have room for these tensors and the graph, and live until the end.
    // Weights get memory from their buffer type. Products are computed one after the other, so that
    // they may share their results' memory.
    unsafe {
        let graph = sys::ggml_new_graph_custom(context, nodes, false);
        let (matrices, products): (Vec<_>, Vec<_>) = (0..copies)
            .map(|_| {
                let matrix = weights.tensor(matrix.ggml_type, shape);
                let product = sys::ggml_mul_mat(context, matrix, input);
                (*product).data = (*output).data;
                sys::ggml_build_forward_expand(graph, product);
                (matrix, product)
            })
            .unzip();
        let buffer_type = if kernels {
            calls::buffer_type()
        } else {
            calls::graphmill_kernels_stock_buffer_type(products[0])
        };
        weights.allocate(buffer_type)?;
        for matrix in matrices {
            sys::ggml_backend_tensor_set(matrix, (*file).data, 0, in_file);
        }
        let mut plan = sys::ggml_graph_plan(graph, matmul.threads as i32, ptr::null_mut());
        let mut work = vec![0_u8; plan.work_size];
        plan.work_data = work.as_mut_ptr();
        let measured = measure(copies, &mut || {
            let status = sys::ggml_graph_compute(graph, &raw mut plan);
            assert_eq!(status, sys::GGML_STATUS_SUCCESS, "nobody aborts it");
        });
        let name = CStr::from_ptr(sys::ggml_backend_buft_name(buffer_type));
        Some((measured, name.to_string_lossy().into_owned()))
    }
}
