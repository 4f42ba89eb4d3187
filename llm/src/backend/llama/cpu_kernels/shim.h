// What C++ and Rust call of each other. `calls.rs`, `mixture.rs` and `attention.rs` have the same structs.

#pragma once

#include <cstddef>
#include <cstdint>

#include "ggml-backend.h"
#include "ggml-cpu.h"

extern "C" {

// A matrix of weights, or the matrices of as many experts.
struct graphmill_matrix {
    int32_t type;
    int64_t columns;
    int64_t rows;
    int64_t experts;
};

// What one thread needs for its share of a product.
struct graphmill_matmul {
    graphmill_matrix matrix;
    const void *     packed;
    // Rows of floats in three dimensions, with the bytes from one to the next in each.
    const void *     activations;
    int64_t          counts[3];
    size_t           strides[3];
    // One row of `matrix.rows` floats for each row of activations.
    float *          out;
    void *           scratch;
    size_t           scratch_bytes;
    int32_t          thread;
    int32_t          threads;
    ggml_threadpool * pool;
};

// How results are gated by others.
enum graphmill_gating : int32_t {
    GRAPHMILL_GATING_NONE,
    GRAPHMILL_GATING_SILU,
    GRAPHMILL_GATING_GELU,
    // That of gpt-oss.
    GRAPHMILL_GATING_OAI,
};

// The gates of experts: matrices of the same form.
struct graphmill_gates {
    graphmill_gating gating;
    float            alpha;
    float            limit;
    // Whether the gate of an expert and the expert are halves of one matrix: that of the product.
    bool             halves;
    // The packed gates and what is added to their rows, as for the product; not used if they are halves.
    const void *     packed;
    const float *    biases;
};

// What one thread needs for its share of a product of experts.
struct graphmill_mixture {
    // Activations are by slot and by token; where there is one for a token, its experts share it. One row of the result for each slot of each token.
    graphmill_matmul matmul;
    // The expert of each slot of a token, and the bytes from one to the next and from a token to the next.
    const void *      ids;
    int64_t           slots;
    int64_t           tokens;
    size_t            strides[2];
    // What is added to each row of each expert; null if nothing is.
    const float *     biases;
    // What each row of the result is multiplied by; null if it is left as it is.
    const float *     weights;
    graphmill_gates   gates;
};

// Rows of numbers in three dimensions, with the bytes from one to the next in each.
struct graphmill_rows {
    const void * first;
    size_t       strides[3];
};

// What one thread needs for its share of attention. Rows are by token or cell, by head, and by stream.
struct graphmill_attention {
    int64_t        tokens;
    int64_t        heads;
    int64_t        kv_heads;
    int64_t        cells;
    int64_t        streams;
    int64_t        key_size;
    int64_t        value_size;
    graphmill_rows queries;
    graphmill_rows keys;
    int32_t        key_type;
    graphmill_rows values;
    int32_t        value_type;
    // Without rows if there is none.
    graphmill_rows mask;
    const float *  sinks;
    float          scale;
    float          cap;
    float          max_bias;
    float *        out;
    void *         scratch;
    size_t         scratch_bytes;
    int32_t        thread;
    int32_t        threads;
    ggml_threadpool * pool;
};

// Whether a matrix of the model that this thread is loading should be packed.
bool graphmill_kernels_takes(const graphmill_matrix * matrix);
// Is told of the memory for packed matrices.
void graphmill_kernels_allocated(const void * first, size_t bytes);
// Bytes of a packed matrix, 0 if the kernels leave it to ggml.
size_t graphmill_kernels_packed_bytes(const graphmill_matrix * matrix);
// `in_file` is the size of `source`.
void graphmill_kernels_pack(const graphmill_matrix * matrix, const void * source, size_t in_file, void * packed);
// Whether the halves of a packed matrix can be told apart.
bool graphmill_kernels_halves(const graphmill_matrix * matrix);
// Bytes of scratch memory for so many rows of activations.
size_t graphmill_kernels_scratch_bytes(const graphmill_matrix * matrix, int64_t activations);
void graphmill_kernels_quantize(const graphmill_matmul * matmul);
void graphmill_kernels_multiply(const graphmill_matmul * matmul);
void graphmill_kernels_multiply_mixture(const graphmill_mixture * mixture);
// Whether there is a kernel for this attention.
bool graphmill_kernels_attends(const graphmill_attention * attention);
// Bytes of scratch memory for it.
size_t graphmill_kernels_attention_bytes(const graphmill_attention * attention);
// Says whether parts are to be merged when all threads are done.
bool graphmill_kernels_attend(const graphmill_attention * attention);
void graphmill_kernels_merge_attention(const graphmill_attention * attention);

// What Rust calls.
ggml_backend_buffer_type_t graphmill_kernels_buffer_type(void);
bool graphmill_kernels_attach(void);
ggml_backend_buffer_type_t graphmill_kernels_stock_buffer_type(ggml_tensor * matmul);
int graphmill_kernels_next_share(ggml_threadpool * pool);

}  // extern "C"
