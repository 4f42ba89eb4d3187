// Computes products of packed weights, and what llama.cpp does with those of experts directly behind them.
//
// A product of experts may be left to the operation that finishes it: the activation of gated experts, which reads two products, or
// the multiplication of each row by its weight. ggml asks about all operations of a graph in their order when it plans the graph. If
// an operation follows the products that it finishes, with nothing between, it marks them. A marked product computes nothing. When
// its finisher is computed, what the product reads is still there, as nothing has been written since.

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

// Where the parameters of a product of experts say that it is left to the operation behind it. ggml uses the first ones.
constexpr uint32_t LEFT = GGML_MAX_OP_PARAMS / sizeof(int32_t) - 1;

// The last two operations that this thread has planned, where they are products of experts. Once it plans another or computes one,
// there are none.
thread_local ggml_tensor * planned[2] = {};

void forget_planned() {
    planned[0] = planned[1] = nullptr;
}

bool is_left(const ggml_tensor * product) {
    return ggml_get_op_params_i32(product, LEFT) != 0;
}

void leave(ggml_tensor * product, bool left) {
    ggml_set_op_params_i32(product, LEFT, left);
}

bool is_experts(const ggml_tensor * op) {
    return op != nullptr && op->op == GGML_OP_MUL_MAT_ID && is_packed(op->src[0]);
}

// Products that an operation reads are computed, even if another one finishes them.
void take_back(const ggml_tensor * op) {
    for (ggml_tensor * source : op->src) {
        if (is_experts(source) && is_left(source)) {
            leave(source, false);
        }
    }
}

size_t scratch_of(const ggml_tensor * product) {
    const graphmill_matrix matrix = matrix_of(product->src[0]);
    return graphmill_kernels_scratch_bytes(&matrix, ggml_nrows(product->src[1]));
}

// Computes a product into `out`. One of experts may have gates, and a factor for each row.
void compute(const ggml_compute_params * params, const ggml_tensor * product, void * out, const ggml_tensor * gates = nullptr,
             const ggml_tensor * factors = nullptr) {
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
    if (product->op == GGML_OP_MUL_MAT) {
        graphmill_kernels_multiply(&matmul);
        return;
    }
    const ggml_tensor *     ids     = product->src[2];
    const graphmill_mixture mixture = {
        matmul,
        ids->data,
        ids->ne[0],
        ids->ne[1],
        { ids->nb[0], ids->nb[1] },
        gates != nullptr ? gates->data : nullptr,
        factors != nullptr ? static_cast<const float *>(factors->data) : nullptr,
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
        if (op->op == GGML_OP_MUL_MAT || !is_left(op)) {
            compute(params, op, op->data);
        }
        return true;
    }
};

products PRODUCTS;

// Whether it multiplies each row of a product of experts by a number, in place.
bool weighs(const ggml_tensor * op) {
    const ggml_tensor * experts = op->src[0];
    const ggml_tensor * factors = op->src[1];
    return op->op == GGML_OP_MUL && is_experts(experts) && op->data == experts->data && op->type == GGML_TYPE_F32 &&
           ggml_are_same_shape(op, experts) && ggml_is_contiguous(op) && factors->type == GGML_TYPE_F32 &&
           ggml_is_contiguous(factors) && is_in_main_memory(factors) && factors->ne[0] == 1 &&
           factors->ne[1] == op->ne[1] && factors->ne[2] == op->ne[2] && factors->ne[3] == 1;
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
        size = scratch_of(experts);
        return true;
    }

    bool compute_forward(ggml_compute_params * params, ggml_tensor * op) override {
        const ggml_tensor * experts = op->src[0];
        if (!is_left(experts)) {
            return false;
        }
        compute(params, experts, op->data, nullptr, op->src[1]);
        return true;
    }
};

weighted_products WEIGHTED;

bool overlap(const ggml_tensor * left, const ggml_tensor * right) {
    const char * left_data  = static_cast<const char *>(left->data);
    const char * right_data = static_cast<const char *>(right->data);
    return left_data < right_data + ggml_nbytes(right) && right_data < left_data + ggml_nbytes(left);
}

// Whether it multiplies a product of experts by the SiLU of another one, of the same activations and experts.
bool gates(const ggml_tensor * op) {
    if (op->op != GGML_OP_GLU || ggml_get_glu_op(op) != GGML_GLU_OP_SWIGLU || !is_experts(op->src[0]) ||
        !is_experts(op->src[1])) {
        return false;
    }
    const ggml_tensor * gate = op->src[0];
    const ggml_tensor * up   = op->src[1];
    return gate != up && gate->src[0]->type == up->src[0]->type && ggml_are_same_shape(gate->src[0], up->src[0]) &&
           gate->src[1] == up->src[1] && gate->src[2] == up->src[2] && op->type == GGML_TYPE_F32 &&
           ggml_are_same_shape(op, up) && ggml_is_contiguous(op) && !(gate->flags & GGML_TENSOR_FLAG_OUTPUT) &&
           !(up->flags & GGML_TENSOR_FLAG_OUTPUT);
}

class gated_products : public ggml::cpu::tensor_traits {
    bool work_size(int, const ggml_tensor * op, size_t & size) override {
        ggml_tensor * gate = op->src[0];
        ggml_tensor * up   = op->src[1];
        const bool    are_next =
            (planned[0] == gate && planned[1] == up) || (planned[0] == up && planned[1] == gate);
        forget_planned();
        // Activations are quantized before the first result is written, and experts are looked up until the last one is.
        if (!are_next || overlap(op, up->src[2])) {
            take_back(op);
            return false;
        }
        leave(gate, true);
        leave(up, true);
        size = scratch_of(up);
        return true;
    }

    bool compute_forward(ggml_compute_params * params, ggml_tensor * op) override {
        const ggml_tensor * gate = op->src[0];
        const ggml_tensor * up   = op->src[1];
        // One of them may have another reader.
        if (!is_left(gate) && !is_left(up)) {
            return false;
        }
        compute(params, up, op->data, gate->src[0]);
        return true;
    }
};

gated_products GATED;

}  // namespace

ggml::cpu::tensor_traits * matmul_traits(const ggml_tensor * op) {
    if (is_matmul(op) && is_packed(op->src[0])) {
        return &PRODUCTS;
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
