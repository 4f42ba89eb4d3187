// Products of packed weights: what ggml's CPU backend leaves to the kernels of this project.

#pragma once

#include "ggml.h"
#include "shim.h"
#include "traits.h"

namespace graphmill {

graphmill_matrix matrix_of(const ggml_tensor * weights);

// Whether it is a matrix, or the matrices of experts.
bool is_whole(const ggml_tensor * weights);

bool is_packed(const ggml_tensor * weights);

bool is_in_main_memory(const ggml_tensor * tensor);

// Whether it is a product with a matrix, or with those of experts.
bool is_matmul(const ggml_tensor * op);

// What computes an operation that is a product of packed weights, or that finishes one of experts; null for others. To be asked about
// every operation that ggml asks about.
ggml::cpu::tensor_traits * matmul_traits(const ggml_tensor * op);

}  // namespace graphmill
