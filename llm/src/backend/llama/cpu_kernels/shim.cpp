// Gives ggml's CPU backend a buffer type whose matrices are packed for the kernels of this project. Everything that is not a call
// of ggml's own C++ interfaces is in Rust: `shim.h` has what both sides call.

#include <type_traits>
#include <vector>

#include "ggml-backend-impl.h"
#include "ggml-cpu-impl.h"
#include "ggml.h"
#include "matmul.h"
#include "shim.h"
#include "traits.h"

// Written for these interfaces; ggml keeps them to itself and may change them in any version.
static_assert(std::is_same_v<decltype(&ggml_backend_cpu_get_extra_buffer_types),
                             std::vector<ggml_backend_buffer_type_t> & (*) ()>);
static_assert(std::is_same_v<decltype(&ggml_barrier), void (*)(ggml_threadpool *)>);
static_assert(std::is_same_v<decltype(&ggml::cpu::tensor_traits::compute_forward),
                             bool (ggml::cpu::tensor_traits::*)(ggml_compute_params *, ggml_tensor *)>);
static_assert(std::is_same_v<decltype(&ggml::cpu::tensor_traits::work_size),
                             bool (ggml::cpu::tensor_traits::*)(int, const ggml_tensor *, size_t &)>);
static_assert(std::is_same_v<decltype(&ggml::cpu::extra_buffer_type::supports_op),
                             bool (ggml::cpu::extra_buffer_type::*)(ggml_backend_dev_t, const ggml_tensor *)>);
static_assert(std::is_same_v<decltype(&ggml::cpu::extra_buffer_type::get_tensor_traits),
                             ggml::cpu::tensor_traits * (ggml::cpu::extra_buffer_type::*) (const ggml_tensor *)>);
static_assert(std::is_same_v<decltype(ggml_compute_params::wsize), size_t> &&
              std::is_same_v<decltype(ggml_compute_params::wdata), void *> &&
              std::is_same_v<decltype(ggml_compute_params::threadpool), ggml_threadpool *>);

using graphmill::is_in_main_memory;
using graphmill::is_matmul;
using graphmill::is_packed;
using graphmill::is_whole;
using graphmill::matrix_of;

namespace {

// Packed weights begin at a line of the cache.
constexpr size_t ALIGNMENT = 64;

graphmill_rows rows_of(const ggml_tensor * tensor) {
    return { tensor->data, { tensor->nb[1], tensor->nb[2], tensor->nb[3] } };
}

graphmill_attention attention_of(const ggml_tensor * op, const ggml_compute_params & params) {
    const ggml_tensor * queries = op->src[0];
    const ggml_tensor * keys    = op->src[1];
    const ggml_tensor * values  = op->src[2];
    const ggml_tensor * mask    = op->src[3];
    const ggml_tensor * sinks   = op->src[4];
    graphmill_rows      added   = {};
    if (mask != nullptr) {
        // Heads share a mask, and so may streams.
        added = { mask->data, { mask->nb[1], 0, mask->ne[3] > 1 ? mask->nb[3] : 0 } };
    }
    return {
        queries->ne[1],
        queries->ne[2],
        keys->ne[2],
        keys->ne[1],
        queries->ne[3],
        queries->ne[0],
        values->ne[0],
        rows_of(queries),
        rows_of(keys),
        keys->type,
        rows_of(values),
        values->type,
        added,
        sinks != nullptr ? static_cast<const float *>(sinks->data) : nullptr,
        ggml_get_op_params_f32(op, 0),
        ggml_get_op_params_f32(op, 2),
        ggml_get_op_params_f32(op, 1),
        static_cast<float *>(op->data),
        params.wdata,
        params.wsize,
        params.ith,
        params.nth,
        params.threadpool,
    };
}

bool is_rotation(const ggml_tensor * matmul) {
    return ggml_get_op_params_i32(matmul, 1) == GGML_HINT_SRC0_IS_HADAMARD;
}

// Whether a tensor comes from a product with packed weights: those of a model that is computed with the kernels. Queries of quantized keys are rotated
// between, as keys are.
bool comes_from_packed(const ggml_tensor * tensor) {
    while (tensor != nullptr && (tensor->op != GGML_OP_MUL_MAT || is_rotation(tensor))) {
        tensor = tensor->op == GGML_OP_MUL_MAT ? tensor->src[1] : tensor->src[0];
    }
    return tensor != nullptr && is_packed(tensor->src[0]);
}

bool attends(const ggml_tensor * op) {
    const ggml_tensor * queries = op->src[0];
    const ggml_tensor * keys    = op->src[1];
    const ggml_tensor * values  = op->src[2];
    const ggml_tensor * mask    = op->src[3];
    if (!comes_from_packed(queries) || queries->type != GGML_TYPE_F32 || queries->nb[0] != sizeof(float) ||
        keys->nb[0] != ggml_type_size(keys->type) || values->nb[0] != ggml_type_size(values->type) ||
        keys->ne[3] != queries->ne[3] || values->ne[3] != queries->ne[3] || values->ne[2] != keys->ne[2] ||
        !ggml_is_contiguous(op)) {
        return false;
    }
    if (mask != nullptr && (mask->type != GGML_TYPE_F16 || mask->nb[0] != sizeof(ggml_fp16_t) || mask->ne[2] != 1 ||
                            (mask->ne[3] != 1 && mask->ne[3] != queries->ne[3]))) {
        return false;
    }
    const graphmill_attention attention = attention_of(op, {});
    return graphmill_kernels_attends(&attention);
}

class attention_traits : public ggml::cpu::tensor_traits {
    bool work_size(int threads, const ggml_tensor * op, size_t & size) override {
        ggml_compute_params params = {};
        params.nth = threads;
        const graphmill_attention attention = attention_of(op, params);
        size = graphmill_kernels_attention_bytes(&attention);
        return true;
    }

    bool compute_forward(ggml_compute_params * params, ggml_tensor * op) override {
        const graphmill_attention attention = attention_of(op, *params);
        if (params->ith == 0) {
            ggml_threadpool_chunk_set(params->threadpool, 0);
        }
        ggml_barrier(params->threadpool);
        if (graphmill_kernels_attend(&attention)) {
            ggml_barrier(params->threadpool);
            graphmill_kernels_merge_attention(&attention);
        }
        return true;
    }
};

attention_traits ATTENTION;

class packed_buffer_type : public ggml::cpu::extra_buffer_type {
    bool supports_op(ggml_backend_dev_t, const ggml_tensor * op) override {
        if (!is_matmul(op) || !is_packed(op->src[0]) || !is_whole(op->src[0])) {
            return false;
        }
        if (op->op == GGML_OP_MUL_MAT ? op->src[0]->ne[2] != 1 :
                                        op->src[2]->type != GGML_TYPE_I32 || !is_in_main_memory(op->src[2])) {
            return false;
        }
        const ggml_tensor * activations = op->src[1];
        if (activations->type != GGML_TYPE_F32 || activations->nb[0] != sizeof(float) ||
            !is_in_main_memory(activations) || op->type != GGML_TYPE_F32 || !ggml_is_contiguous(op)) {
            return false;
        }
        // A buffer without bytes stands for the question where weights should go.
        if (op->src[0]->buffer->size > 0) {
            return true;
        }
        const graphmill_matrix matrix = matrix_of(op->src[0]);
        return graphmill_kernels_takes(&matrix);
    }

    ggml::cpu::tensor_traits * get_tensor_traits(const ggml_tensor * op) override {
        // It has to know of every operation.
        if (ggml::cpu::tensor_traits * traits = graphmill::matmul_traits(op)) {
            return traits;
        }
        return op->op == GGML_OP_FLASH_ATTN_EXT && attends(op) ? &ATTENTION : nullptr;
    }
};

void set_tensor(ggml_backend_buffer_t, ggml_tensor * weights, const void * source, size_t offset, size_t size) {
    // Weights come as a whole.
    GGML_ASSERT(offset == 0 && size == ggml_nbytes(weights));
    const graphmill_matrix matrix = matrix_of(weights);
    graphmill_kernels_pack(&matrix, source, size, weights->data);
}

ggml_backend_buffer_t alloc_buffer(ggml_backend_buffer_type_t type, size_t size) {
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), size);
    if (buffer != nullptr) {
        // What is in it is not laid out as ggml does: it can be written as a whole, and not be read.
        buffer->buft                = type;
        buffer->iface.init_tensor   = nullptr;
        buffer->iface.memset_tensor = nullptr;
        buffer->iface.set_tensor    = set_tensor;
        buffer->iface.get_tensor    = nullptr;
        buffer->iface.cpy_tensor    = nullptr;
        graphmill_kernels_allocated(ggml_backend_buffer_get_base(buffer), size);
    }
    return buffer;
}

size_t alloc_size(ggml_backend_buffer_type_t, const ggml_tensor * weights) {
    const graphmill_matrix matrix = matrix_of(weights);
    const size_t           packed = is_whole(weights) ? graphmill_kernels_packed_bytes(&matrix) : 0;
    return packed > 0 ? packed : ggml_nbytes(weights);
}

}  // namespace

ggml_backend_buffer_type_t graphmill_kernels_buffer_type(void) {
    static packed_buffer_type       context;
    static ggml_backend_buffer_type type = [] {
        ggml_backend_buffer_type type = {};
        type.iface.get_name       = [](ggml_backend_buffer_type_t) { return "CPU_PACKED"; };
        type.iface.alloc_buffer   = alloc_buffer;
        type.iface.get_alignment  = [](ggml_backend_buffer_type_t) { return ALIGNMENT; };
        type.iface.get_alloc_size = alloc_size;
        type.device               = ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0);
        type.context              = static_cast<ggml::cpu::extra_buffer_type *>(&context);
        return type;
    }();
    return &type;
}

// Puts the buffer type before all others. Says whether llama.cpp will look at it: ggml reads its list once.
bool graphmill_kernels_attach(void) {
    auto & types = ggml_backend_cpu_get_extra_buffer_types();
    types.insert(types.begin(), graphmill_kernels_buffer_type());
    auto list = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
        ggml_backend_reg_get_proc_address(ggml_backend_cpu_reg(), "ggml_backend_dev_get_extra_bufts"));
    if (list == nullptr) {
        return false;
    }
    ggml_backend_buffer_type_t * listed = list(graphmill_kernels_buffer_type()->device);
    return listed != nullptr && *listed == graphmill_kernels_buffer_type();
}

// The buffer type that ggml chooses without this one for the weights of a product, which have no memory yet.
ggml_backend_buffer_type_t graphmill_kernels_stock_buffer_type(ggml_tensor * matmul) {
    ggml_backend_buffer_type_t chosen  = ggml_backend_cpu_buffer_type();
    ggml_backend_buffer        without = {};
    auto &                     types   = ggml_backend_cpu_get_extra_buffer_types();
    matmul->src[0]->buffer             = &without;
    for (auto type = types.rbegin(); type != types.rend(); ++type) {
        without.buft = *type;
        if (*type != graphmill_kernels_buffer_type() &&
            static_cast<ggml::cpu::extra_buffer_type *>((*type)->context)->supports_op((*type)->device, matmul)) {
            chosen = *type;
        }
    }
    matmul->src[0]->buffer = nullptr;
    return chosen;
}

// Counts the shares of the product that the pool is computing, from 0.
int graphmill_kernels_next_share(ggml_threadpool * pool) {
    return ggml_threadpool_chunk_add(pool, 1);
}
