//! A small attention, computed with queries from packed weights and with queries from plain ones.

use std::ptr;
use std::slice;

use llama_cpp_sys_2 as sys;

use super::check::TENSOR_BYTES;
use super::tensors::{Tensors, numbers};
use super::{Matrix, calls};

/// Query heads that share one head of keys, and the size of a head.
const HEADS: usize = 3;
const SIZE: usize = 64;
/// Number of cells: more than one block. The tokens are more rows than fit in one tile.
const CELLS: usize = 300;
const TOKENS: usize = 19;
/// Length of the vectors that queries are computed from.
const COLUMNS: usize = 256;
/// Mask of a cell that is seen, as a binary16 number.
const SEEN: u16 = 0;
const UNSEEN: u16 = 0xfc00;

/// Computes the same attention with the kernels and with llama.cpp; `None` if there is not enough
/// memory.
pub(super) fn results() -> Option<(Vec<f32>, Vec<f32>)> {
    let plain = Tensors::new(TENSOR_BYTES, false)?;
    let mut packed = Tensors::new(TENSOR_BYTES, true)?;
    let context = plain.context.as_ptr();
    let matrix = Matrix {
        ggml_type: sys::GGML_TYPE_Q8_0,
        columns: COLUMNS,
        rows: HEADS * SIZE,
        experts: 1,
    };
    let weights = plain.tensor(matrix.ggml_type, matrix.columns, matrix.rows);
    let packed_weights = packed.tensor(matrix.ggml_type, matrix.columns, matrix.rows);
    let activations = plain.tensor(sys::GGML_TYPE_F32, COLUMNS, TOKENS);
    let keys = plain.tensor(sys::GGML_TYPE_F16, SIZE, CELLS);
    let values = plain.tensor(sys::GGML_TYPE_F16, SIZE, CELLS);
    let mask = plain.tensor(sys::GGML_TYPE_F16, CELLS, TOKENS);
    // Small numbers, so that no score is far above the others.
    let given: Vec<f32> = numbers(COLUMNS * TOKENS, 3)
        .into_iter()
        .map(|number| number / 8.0)
        .collect();
    let source = numbers(matrix.columns * matrix.rows, 4);
    let seen: Vec<u16> = (0..TOKENS * CELLS)
        .map(|index| {
            let (token, cell) = (index / CELLS, index % CELLS);
            if cell <= CELLS - TOKENS + token {
                SEEN
            } else {
                UNSEEN
            }
        })
        .collect();
    // SAFETY: the tensors are of these sizes and of the contexts, which live until the end; the
    // ones in `plain` have memory behind them, the other gets it from the buffer type. The graph is
    // computed on this thread before the results are read.
    unsafe {
        packed.buffer = sys::ggml_backend_alloc_ctx_tensors_from_buft(
            packed.context.as_ptr(),
            calls::buffer_type(),
        );
        if packed.buffer.is_null() {
            return None;
        }
        let in_file = sys::ggml_quantize_chunk(
            matrix.ggml_type,
            source.as_ptr(),
            sys::ggml_get_data(weights),
            0,
            matrix.rows as i64,
            matrix.columns as i64,
            ptr::null(),
        );
        sys::ggml_backend_tensor_set(packed_weights, sys::ggml_get_data(weights), 0, in_file);
        let room = sys::ggml_get_data_f32(activations);
        slice::from_raw_parts_mut(room, given.len()).copy_from_slice(&given);
        for (tensor, seed) in [(keys, 5), (values, 6)] {
            let numbers = numbers(SIZE * CELLS, seed);
            let room = sys::ggml_get_data(tensor).cast();
            sys::ggml_fp32_to_fp16_row(numbers.as_ptr(), room, numbers.len() as i64);
        }
        let room = sys::ggml_get_data(mask).cast::<u16>();
        slice::from_raw_parts_mut(room, seen.len()).copy_from_slice(&seen);
        let graph = sys::ggml_new_graph(context);
        let attend = |weights| {
            let queries = sys::ggml_mul_mat(context, weights, activations);
            let (size, heads, tokens) = (SIZE as i64, HEADS as i64, TOKENS as i64);
            let queries = sys::ggml_reshape_3d(context, queries, size, heads, tokens);
            let queries = sys::ggml_permute(context, queries, 0, 2, 1, 3);
            let scale = 1.0 / (SIZE as f32).sqrt();
            let result =
                sys::ggml_flash_attn_ext(context, queries, keys, values, mask, scale, 0.0, 0.0);
            sys::ggml_build_forward_expand(graph, result);
            result
        };
        let (ours, theirs) = (attend(packed_weights), attend(weights));
        if sys::ggml_graph_compute_with_ctx(context, graph, 1) != sys::GGML_STATUS_SUCCESS {
            return None;
        }
        let results = HEADS * SIZE * TOKENS;
        let read = |result| slice::from_raw_parts(sys::ggml_get_data_f32(result), results).to_vec();
        Some((read(ours), read(theirs)))
    }
}
