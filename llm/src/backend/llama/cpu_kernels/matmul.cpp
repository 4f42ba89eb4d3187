// Computes products of packed weights, and what llama.cpp does with those of experts directly behind them.
//
// A product of experts may be left to the operations that finish it: the sum with biases, the activation of gated experts, which reads
// two products or both halves of one, and the multiplication of each row by its weight. ggml asks about all operations of a graph in
// their order when it plans the graph. If an operation follows the products that it finishes, with nothing between, it marks them. A
// marked operation computes nothing. When its finisher is computed, what the product reads is still there, as nothing has been written
// since. A sum with biases is a finisher, and may itself be left to the next one.

#include "matmul.h"

#include "ggml-backend-impl.h"
#include "ggml-cpu-impl.h"

namespace graphmill {

graphmill_matrix matrix_of(const ggml_tensor * weights) {
    return { weights->type, weights->ne[0], weights->ne[1], weights->ne[2] };
}

bool is_whole(const ggml_tensor * weights) {
    return weights->ne[3] == 1 && weights->view_src == nullptr && ggml_is_contiguous(weights);
}

bool is_packed(const ggml_tensor * weights) {
    return weights->buffer != nullptr && weights->buffer->buft == graphmill_kernels_buffer_type();
}

bool is_in_main_memory(const ggml_tensor * tensor) {
    return tensor->buffer == nullptr || ggml_backend_buft_is_host(tensor->buffer->buft);
}

bool is_matmul(const ggml_tensor * op) {
    return op->op == GGML_OP_MUL_MAT || op->op == GGML_OP_MUL_MAT_ID;
}

namespace {

// Where the parameters of an operation say that it is left to one behind it. ggml uses the first ones.
constexpr uint32_t LEFT = GGML_MAX_OP_PARAMS / sizeof(int32_t) - 1;

// The last two results of experts that this thread has planned: products, or their sums with biases. Once it plans another operation
// or computes one, there are none.
thread_local ggml_tensor * planned[2] = {};

void forget_planned() {
    planned[0] = planned[1] = nullptr;
}

bool is_left(const ggml_tensor * op) {
    return ggml_get_op_params_i32(op, LEFT) != 0;
}

void leave(ggml_tensor * op, bool left) {
    ggml_set_op_params_i32(op, LEFT, left);
}

bool is_output(const ggml_tensor * op) {
    return (op->flags & GGML_TENSOR_FLAG_OUTPUT) != 0;
}

bool is_experts(const ggml_tensor * op) {
    return op != nullptr && op->op == GGML_OP_MUL_MAT_ID && is_packed(op->src[0]);
}

// Whether it adds the biases of experts to their product.
bool adds_biases(const ggml_tensor * op) {
    if (op == nullptr || op->op != GGML_OP_ADD_ID || !is_experts(op->src[0])) {
        return false;
    }
    const ggml_tensor * product = op->src[0];
    const ggml_tensor * biases  = op->src[1];
    return op->src[2] == product->src[2] && op->type == GGML_TYPE_F32 && ggml_is_contiguous(op) &&
           biases->type == GGML_TYPE_F32 && ggml_is_contiguous(biases) && is_in_main_memory(biases) &&
           biases->ne[0] == product->ne[0] && ggml_nrows(biases) == product->src[0]->ne[2];
}

// The product of experts that a result is, but for biases; null for others.
const ggml_tensor * product_of(const ggml_tensor * result) {
    return adds_biases(result) ? result->src[0] : is_experts(result) ? result : nullptr;
}

const float * biases_of(const ggml_tensor * result) {
    return adds_biases(result) ? static_cast<const float *>(result->src[1]->data) : nullptr;
}

// Whether nothing is computed for it.
bool is_view(const ggml_tensor * op) {
    return op->op == GGML_OP_NONE || op->op == GGML_OP_VIEW || op->op == GGML_OP_RESHAPE || op->op == GGML_OP_PERMUTE ||
           op->op == GGML_OP_TRANSPOSE;
}

// What a tensor shows a part of, or itself.
ggml_tensor * whole(ggml_tensor * tensor) {
    return tensor != nullptr && is_view(tensor) && tensor->view_src != nullptr ? tensor->view_src : tensor;
}

// Results that an operation reads are computed, even if another one finishes them.
void take_back(const ggml_tensor * op) {
    for (ggml_tensor * source : op->src) {
        ggml_tensor * result = whole(source);
        if (product_of(result) != nullptr && is_left(result)) {
            leave(result, false);
        }
    }
}

size_t scratch_of(const ggml_tensor * product) {
    const graphmill_matrix matrix = matrix_of(product->src[0]);
    return graphmill_kernels_scratch_bytes(&matrix, ggml_nrows(product->src[1]));
}

// Quantizes the activations of a product, on all threads. Its result goes to `out`.
graphmill_matmul begin(const ggml_compute_params * params, const ggml_tensor * product, void * out) {
    const ggml_tensor *    weights     = product->src[0];
    const ggml_tensor *    activations = product->src[1];
    const graphmill_matmul matmul      = {
        matrix_of(weights),
        weights->data,
        activations->data,
        { activations->ne[1], activations->ne[2], activations->ne[3] },
        { activations->nb[1], activations->nb[2], activations->nb[3] },
        static_cast<float *>(out),
        params->wdata,
        params->wsize,
        params->ith,
        params->nth,
        params->threadpool,
    };
    if (params->ith == 0) {
        ggml_threadpool_chunk_set(params->threadpool, 0);
    }
    graphmill_kernels_quantize(&matmul);
    ggml_barrier(params->threadpool);
    return matmul;
}

// Computes a result of experts into `out`, with a factor for each row or with gates, where it has them.
void compute(const ggml_compute_params * params, const ggml_tensor * result, void * out, const ggml_tensor * factors = nullptr,
             const graphmill_gates & gates = {}) {
    const ggml_tensor *     product = product_of(result);
    const ggml_tensor *     ids     = product->src[2];
    const graphmill_mixture mixture = {
        begin(params, product, out),
        ids->data,
        ids->ne[0],
        ids->ne[1],
        { ids->nb[0], ids->nb[1] },
        biases_of(result),
        factors != nullptr ? static_cast<const float *>(factors->data) : nullptr,
        gates,
    };
    graphmill_kernels_multiply_mixture(&mixture);
}

class products : public ggml::cpu::tensor_traits {
    bool work_size(int, const ggml_tensor * op, size_t & size) override {
        if (op->op == GGML_OP_MUL_MAT_ID) {
            planned[0] = planned[1];
            planned[1] = const_cast<ggml_tensor *>(op);
            leave(planned[1], false);
        } else {
            forget_planned();
        }
        size = scratch_of(op);
        return true;
    }

    bool compute_forward(ggml_compute_params * params, ggml_tensor * op) override {
        forget_planned();
        if (op->op == GGML_OP_MUL_MAT) {
            const graphmill_matmul matmul = begin(params, op, op->data);
            graphmill_kernels_multiply(&matmul);
        } else if (!is_left(op)) {
            compute(params, op, op->data);
        }
        return true;
    }
};

products PRODUCTS;

class biased_products : public ggml::cpu::tensor_traits {
    bool work_size(int, const ggml_tensor * op, size_t & size) override {
        ggml_tensor * sum     = const_cast<ggml_tensor *>(op);
        ggml_tensor * product = op->src[0];
        leave(sum, false);
        if (planned[1] != product || is_output(product)) {
            forget_planned();
            take_back(op);
            return false;
        }
        leave(product, true);
        planned[1] = sum;
        size       = scratch_of(product);
        return true;
    }

    bool compute_forward(ggml_compute_params * params, ggml_tensor * op) override {
        forget_planned();
        if (is_left(op)) {
            return true;
        }
        if (!is_left(op->src[0])) {
            return false;
        }
        compute(params, op, op->data);
        return true;
    }
};

biased_products BIASED;

// Whether it multiplies each row of a result of experts by a number, in place.
bool weighs(const ggml_tensor * op) {
    const ggml_tensor * experts = op->src[0];
    const ggml_tensor * factors = op->src[1];
    return op->op == GGML_OP_MUL && product_of(experts) != nullptr && op->data == experts->data &&
           op->type == GGML_TYPE_F32 && ggml_are_same_shape(op, experts) && ggml_is_contiguous(op) &&
           factors->type == GGML_TYPE_F32 && ggml_is_contiguous(factors) && is_in_main_memory(factors) &&
           factors->ne[0] == 1 && factors->ne[1] == op->ne[1] && factors->ne[2] == op->ne[2] && factors->ne[3] == 1;
}

class weighted_products : public ggml::cpu::tensor_traits {
    bool work_size(int, const ggml_tensor * op, size_t & size) override {
        ggml_tensor * experts = op->src[0];
        const bool    is_next = planned[1] == experts;
        forget_planned();
        if (!is_next) {
            take_back(op);
            return false;
        }
        leave(experts, true);
        size = scratch_of(product_of(experts));
        return true;
    }

    bool compute_forward(ggml_compute_params * params, ggml_tensor * op) override {
        const ggml_tensor * experts = op->src[0];
        if (!is_left(experts)) {
            return false;
        }
        compute(params, experts, op->data, op->src[1]);
        return true;
    }
};

weighted_products WEIGHTED;

bool overlap(const ggml_tensor * left, const ggml_tensor * right) {
    const char * left_data  = static_cast<const char *>(left->data);
    const char * right_data = static_cast<const char *>(right->data);
    return left_data < right_data + ggml_nbytes(right) && right_data < left_data + ggml_nbytes(left);
}

graphmill_gating gating_of(const ggml_tensor * op) {
    if (op->op != GGML_OP_GLU) {
        return GRAPHMILL_GATING_NONE;
    }
    switch (ggml_get_glu_op(op)) {
        case GGML_GLU_OP_SWIGLU:
            return GRAPHMILL_GATING_SILU;
        case GGML_GLU_OP_GEGLU:
            return GRAPHMILL_GATING_GELU;
        case GGML_GLU_OP_SWIGLU_OAI:
            return GRAPHMILL_GATING_OAI;
        default:
            return GRAPHMILL_GATING_NONE;
    }
}

// Whether both are the halves of the rows of one result of experts, the gates first.
bool are_halves(ggml_tensor * gate, ggml_tensor * up) {
    const ggml_tensor * result  = whole(gate);
    const ggml_tensor * product = product_of(result);
    if (product == nullptr || whole(up) != result || gate == result || up == result) {
        return false;
    }
    const graphmill_matrix matrix = matrix_of(product->src[0]);
    for (const ggml_tensor * half : { gate, up }) {
        if (half->ne[0] * 2 != result->ne[0] || half->ne[1] != result->ne[1] || half->ne[2] != result->ne[2] ||
            half->nb[1] != result->nb[1] || half->nb[2] != result->nb[2]) {
            return false;
        }
    }
    return gate->view_offs == 0 && up->view_offs == up->ne[0] * sizeof(float) && graphmill_kernels_halves(&matrix);
}

// Whether they are results of different experts of the same form, for the same activations.
bool are_alike(const ggml_tensor * gate, const ggml_tensor * up) {
    const ggml_tensor * gates = product_of(gate);
    const ggml_tensor * ups   = product_of(up);
    return gates != nullptr && ups != nullptr && gates != ups && gates->src[0]->type == ups->src[0]->type &&
           ggml_are_same_shape(gates->src[0], ups->src[0]) && gates->src[1] == ups->src[1] && gates->src[2] == ups->src[2];
}

// Whether it is the activation of gated experts.
bool gates(const ggml_tensor * op) {
    return gating_of(op) != GRAPHMILL_GATING_NONE && op->src[1] != nullptr && op->type == GGML_TYPE_F32 &&
           ggml_is_contiguous(op) && ggml_are_same_shape(op, op->src[1]) &&
           (are_halves(op->src[0], op->src[1]) || are_alike(op->src[0], op->src[1]));
}

class gated_products : public ggml::cpu::tensor_traits {
    bool work_size(int, const ggml_tensor * op, size_t & size) override {
        ggml_tensor * gate     = whole(op->src[0]);
        ggml_tensor * up       = whole(op->src[1]);
        const bool    are_next = gate == up ? planned[1] == up :
                                              (planned[0] == gate && planned[1] == up) || (planned[0] == up && planned[1] == gate);
        forget_planned();
        // Activations are quantized before the first result is written, and experts are looked up until the last one is.
        if (!are_next || is_output(gate) || is_output(up) || is_output(op->src[0]) || is_output(op->src[1]) ||
            overlap(op, product_of(up)->src[2])) {
            take_back(op);
            return false;
        }
        leave(gate, true);
        leave(up, true);
        size = scratch_of(product_of(up));
        return true;
    }

    bool compute_forward(ggml_compute_params * params, ggml_tensor * op) override {
        const ggml_tensor * gate = whole(op->src[0]);
        const ggml_tensor * up   = whole(op->src[1]);
        // One of them may have another reader.
        if (!is_left(gate) && !is_left(up)) {
            return false;
        }
        const graphmill_gates gates = {
            gating_of(op),
            ggml_get_op_params_f32(op, 2),
            ggml_get_op_params_f32(op, 3),
            gate == up,
            product_of(gate)->src[0]->data,
            biases_of(gate),
        };
        compute(params, up, op->data, nullptr, gates);
        return true;
    }
};

gated_products GATED;

}  // namespace

ggml::cpu::tensor_traits * matmul_traits(const ggml_tensor * op) {
    if (is_matmul(op) && is_packed(op->src[0])) {
        return &PRODUCTS;
    }
    if (is_view(op)) {
        return nullptr;
    }
    if (adds_biases(op)) {
        return &BIASED;
    }
    if (weighs(op)) {
        return &WEIGHTED;
    }
    if (gates(op)) {
        return &GATED;
    }
    take_back(op);
    forget_planned();
    return nullptr;
}

}  // namespace graphmill
