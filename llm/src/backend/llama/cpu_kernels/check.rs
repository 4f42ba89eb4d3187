//! The check at the start: small products of every format, and attention, compared with llama.cpp's
//! own results.

use std::ptr;
use std::slice;

use llama_cpp_sys_2 as sys;

use super::check_mixture::{Finish, FinishPlace, Mixture};
use super::panics::Watch;
use super::tensors::{Tensors, numbers};
use super::{Matrix, calls, check_attention};

/// Rows of the matrix: its last panel is not full. There are more activations than fit in one tile.
const ROWS: usize = 75;
/// Half the rows of a matrix whose halves are packed separately.
const HALF: usize = 64;
const COLUMNS: usize = 512;
const ACTIVATIONS: usize = 19;
/// Largest allowed difference, relative to the size of the result. Both sides quantize activations
/// to 8 bits, each in its own blocks, which causes half a percent here.
const MAX_DIFFERENCE: f64 = 0.03;
/// Memory for the tensors of a product, in bytes.
pub(super) const TENSOR_BYTES: usize = 1 << 20;

/// Types of weights that have kernels.
pub(super) const TYPES: [sys::ggml_type; 14] = [
    sys::GGML_TYPE_Q8_0,
    sys::GGML_TYPE_Q4_0,
    sys::GGML_TYPE_Q5_0,
    sys::GGML_TYPE_Q5_1,
    sys::GGML_TYPE_MXFP4,
    sys::GGML_TYPE_IQ4_NL,
    sys::GGML_TYPE_IQ4_XS,
    sys::GGML_TYPE_Q2_K,
    sys::GGML_TYPE_Q3_K,
    sys::GGML_TYPE_Q4_K,
    sys::GGML_TYPE_Q5_K,
    sys::GGML_TYPE_Q6_K,
    sys::GGML_TYPE_F16,
    sys::GGML_TYPE_BF16,
];

/// Compares products of all formats of the kernels, and attention. The error describes the first
/// wrong result.
pub(super) fn all() -> Result<(), String> {
    // One thread computes the check, this one.
    let watch = Watch::thread();
    for ggml_type in TYPES {
        let matrix = Matrix {
            ggml_type,
            columns: COLUMNS,
            rows: ROWS,
            experts: 1,
        };
        if matrix.packed_bytes().is_none() {
            continue;
        }
        let (ours, theirs) = matmuls(matrix).ok_or("not enough memory to check them")?;
        if watch.panicked() {
            return Err(format!("a matmul of {} has failed", matrix.type_name()));
        }
        compare(&matrix.type_name(), &ours, &theirs)?;
    }
    let next = Finish::ALL.map(|finish| (finish, FinishPlace::Next));
    let others = [FinishPlace::Later, FinishPlace::Read, FinishPlace::Again]
        .map(|place| (Finish::BiasesAndOai, place));
    for (finish, place) in next.into_iter().chain(others) {
        let mixture = Mixture {
            ggml_type: sys::GGML_TYPE_Q8_0,
            columns: COLUMNS,
            rows: if finish.halves() { HALF } else { ROWS },
            experts: 5,
            slots: 2,
            tokens: ACTIVATIONS,
            shared: true,
            finish,
            place,
        };
        let (ours, theirs) = mixture.results().ok_or("not enough memory to check them")?;
        if watch.panicked() {
            return Err("a matmul of experts has failed".to_owned());
        }
        compare("experts", &ours, &theirs)?;
    }
    let (ours, theirs) = check_attention::results().ok_or("not enough memory to check them")?;
    if watch.panicked() {
        return Err("attention has failed".to_owned());
    }
    compare("queries and keys", &ours, &theirs)
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

/// Computes the same product with the kernels and with llama.cpp; `None` if there is not enough
/// memory.
fn matmuls(matrix: Matrix) -> Option<(Vec<f32>, Vec<f32>)> {
    let plain = Tensors::new(TENSOR_BYTES, false)?;
    let mut packed = Tensors::new(TENSOR_BYTES, true)?;
    let weights = plain.tensor(matrix.ggml_type, COLUMNS, ROWS);
    let packed_weights = packed.tensor(matrix.ggml_type, COLUMNS, ROWS);
    let activations = plain.tensor(sys::GGML_TYPE_F32, COLUMNS, ACTIVATIONS);
    let given = numbers(COLUMNS * ACTIVATIONS, 1);
    let values = numbers(COLUMNS * ROWS, 2);
    let results = ROWS * ACTIVATIONS;
    // SAFETY: the tensors are of these sizes and of the contexts, which live until the end; the
    // ones in `plain` have memory behind them, the other gets it from the buffer type. Graphs are
    // computed on this thread before the results are read.
    unsafe {
        packed.buffer = sys::ggml_backend_alloc_ctx_tensors_from_buft(
            packed.context.as_ptr(),
            calls::buffer_type(),
        );
        if packed.buffer.is_null() {
            return None;
        }
        let (columns, rows) = (COLUMNS as i64, ROWS as i64);
        let in_file = sys::ggml_quantize_chunk(
            matrix.ggml_type,
            values.as_ptr(),
            sys::ggml_get_data(weights),
            0,
            rows,
            columns,
            ptr::null(),
        );
        sys::ggml_backend_tensor_set(packed_weights, sys::ggml_get_data(weights), 0, in_file);
        let room = sys::ggml_get_data_f32(activations);
        slice::from_raw_parts_mut(room, given.len()).copy_from_slice(&given);
        let graph = sys::ggml_new_graph(plain.context.as_ptr());
        let multiply = |weights| {
            let matmul = sys::ggml_mul_mat(plain.context.as_ptr(), weights, activations);
            sys::ggml_build_forward_expand(graph, matmul);
            matmul
        };
        let (ours, theirs) = (multiply(packed_weights), multiply(weights));
        if sys::ggml_graph_compute_with_ctx(plain.context.as_ptr(), graph, 1)
            != sys::GGML_STATUS_SUCCESS
        {
            return None;
        }
        let read = |matmul| slice::from_raw_parts(sys::ggml_get_data_f32(matmul), results).to_vec();
        Some((read(ours), read(theirs)))
    }
}
