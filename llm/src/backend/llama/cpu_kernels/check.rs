//! The check at the start: a small product of every format, and attention, compared with
//! llama.cpp's own results.

use std::slice;

use llama_cpp_sys_2 as sys;

use super::panics::PanicWatch;
use super::tensors::{Tensors, numbers};
use super::{FORMATS, Matrix, calls};

/// Rows of the matrix: its last panel is not full. There are more activations than fit in one tile.
const ROWS: usize = 75;
const COLUMNS: usize = 512;
const ACTIVATIONS: usize = 19;
/// Query heads that share one head of keys, and the size of a head.
const HEADS: usize = 3;
const SIZE: usize = 64;
/// Number of cells: more than one block.
const CELLS: usize = 300;
/// Largest allowed difference, relative to the size of the result. Both sides quantize activations
/// to 8 bits, each in its own blocks, which causes half a percent here.
const MAX_DIFFERENCE: f64 = 0.03;
/// Memory for the tensors of both sides and for their computation, in bytes.
const TENSOR_BYTES: usize = 2 << 20;

/// Compares products of all formats of the kernels, and attention. The error describes the first
/// wrong result.
pub(super) fn all() -> Result<(), String> {
    // One thread computes the check, this one.
    let watch = PanicWatch::thread();
    let check = |name: &str, matrix, compute: Compute| {
        let results = results(matrix, compute);
        let [ours, theirs] = results.ok_or("not enough memory to check them")?;
        if watch.panicked() {
            return Err(format!("a matmul of {name} has failed"));
        }
        compare(name, &ours, &theirs)
    };
    for (ggml_type, _) in FORMATS {
        let matrix = Matrix {
            ggml_type,
            columns: COLUMNS,
            rows: ROWS,
            experts: 1,
        };
        check(&matrix.type_name(), matrix, product)?;
    }
    let queries = Matrix {
        ggml_type: sys::GGML_TYPE_Q8_0,
        columns: COLUMNS,
        rows: HEADS * SIZE,
        experts: 1,
    };
    check("queries and keys", queries, attention)
}

/// Compares a product of the kernels with llama.cpp's. The error has the difference if it is too
/// large.
pub(super) fn compare(name: &str, ours: &[f32], theirs: &[f32]) -> Result<(), String> {
    let difference = difference(ours, theirs);
    if difference.is_nan() || difference > MAX_DIFFERENCE {
        return Err(format!(
            "a matmul of {name} differs by {:.1} % from llama.cpp's",
            difference * 100.0
        ));
    }
    Ok(())
}

/// Returns the length of the difference of two vectors, relative to the length of the second.
fn difference(ours: &[f32], theirs: &[f32]) -> f64 {
    let square = |value: f32| f64::from(value) * f64::from(value);
    let pairs = ours.iter().zip(theirs);
    let apart: f64 = pairs.map(|(ours, theirs)| square(ours - theirs)).sum();
    let whole: f64 = theirs.iter().map(|value| square(*value)).sum();
    (apart / whole).sqrt()
}

/// Adds an operation with a matrix of weights to the tensors, and the same numbers each time as its
/// other inputs.
type Compute = fn(&Tensors, *mut sys::ggml_tensor) -> *mut sys::ggml_tensor;

fn product(tensors: &Tensors, weights: *mut sys::ggml_tensor) -> *mut sys::ggml_tensor {
    // Small numbers, so that no score of attention is far above the others.
    let given: Vec<f32> = numbers(COLUMNS * ACTIVATIONS, 1)
        .into_iter()
        .map(|number| number / 8.0)
        .collect();
    let activations = tensors.filled(sys::GGML_TYPE_F32, [COLUMNS, ACTIVATIONS, 1], &given);
    // SAFETY: the context is alive, as are both tensors, which have as many columns.
    unsafe { sys::ggml_mul_mat(tensors.context.as_ptr(), weights, activations) }
}

/// Adds attention with queries that are a product.
fn attention(tensors: &Tensors, weights: *mut sys::ggml_tensor) -> *mut sys::ggml_tensor {
    let context = tensors.context.as_ptr();
    let queries = product(tensors, weights);
    let half = |shape, numbers: &[f32]| tensors.filled(sys::GGML_TYPE_F16, shape, numbers);
    let cells = |seed| half([SIZE, CELLS, 1], &numbers(SIZE * CELLS, seed));
    let (keys, values) = (cells(5), cells(6));
    // Each token sees the cells up to its own, which is one of the last.
    let seen = |index: usize| index % CELLS <= CELLS - ACTIVATIONS + index / CELLS;
    let mask: Vec<f32> = (0..ACTIVATIONS * CELLS)
        .map(|index| if seen(index) { 0.0 } else { f32::NEG_INFINITY })
        .collect();
    let mask = half([CELLS, ACTIVATIONS, 1], &mask);
    let (size, heads, tokens) = (SIZE as i64, HEADS as i64, ACTIVATIONS as i64);
    let scale = 1.0 / (SIZE as f32).sqrt();
    // SAFETY: the context is alive, as are the tensors, which have these shapes.
    unsafe {
        let queries = sys::ggml_reshape_3d(context, queries, size, heads, tokens);
        let queries = sys::ggml_permute(context, queries, 0, 2, 1, 3);
        sys::ggml_flash_attn_ext(context, queries, keys, values, mask, scale, 0.0, 0.0)
    }
}

/// Computes the same with a matrix that is packed and with a plain one: the first result is that of
/// the kernels, the second llama.cpp's. `None` if there is not enough memory.
fn results(matrix: Matrix, compute: Compute) -> Option<[Vec<f32>; 2]> {
    let plain = Tensors::new(TENSOR_BYTES, false)?;
    let mut packed = Tensors::new(1 << 12, true)?;
    let shape = [matrix.columns, matrix.rows, matrix.experts];
    let values = numbers(shape.iter().product(), 2);
    let weights = plain.filled(matrix.ggml_type, shape, &values);
    let packed_weights = packed.tensor(matrix.ggml_type, shape);
    packed.allocate(calls::buffer_type())?;
    let context = plain.context.as_ptr();
    // SAFETY: the tensors are of the contexts, which live until the end. Both matrices have memory
    // for the same numbers. The graph is computed on this thread before the results are read.
    unsafe {
        let (source, in_file) = (sys::ggml_get_data(weights), sys::ggml_nbytes(weights));
        sys::ggml_backend_tensor_set(packed_weights, source, 0, in_file);
        let graph = sys::ggml_new_graph(context);
        let sides = [packed_weights, weights].map(|weights| {
            let result = compute(&plain, weights);
            sys::ggml_build_forward_expand(graph, result);
            result
        });
        let status = sys::ggml_graph_compute_with_ctx(context, graph, 1);
        let read = |result: *mut sys::ggml_tensor| {
            let count = sys::ggml_nelements(result) as usize;
            slice::from_raw_parts(sys::ggml_get_data_f32(result), count).to_vec()
        };
        (status == sys::GGML_STATUS_SUCCESS).then(|| sides.map(read))
    }
}
