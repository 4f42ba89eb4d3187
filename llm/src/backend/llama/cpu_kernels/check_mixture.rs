//! The check of experts, for all formats: who is sent to whom, and against what llama.cpp computes
//! itself.

use std::ptr;
use std::slice;

use llama_cpp_sys_2 as sys;

use super::calls;
use super::tensors::{Tensors, numbers};

/// What is done with a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    Nothing,
    /// Each row is multiplied by a weight, by the operation behind the product.
    Weights,
    /// By one after another product.
    WeightsLater,
    /// The results are multiplied by the `SiLU` of those of gates, by the operation behind both.
    Gates,
    /// By one after another product.
    GatesLater,
    /// As `Gates`, and added to the results.
    GatesAndSum,
}

impl Finish {
    pub(super) const ALL: [Self; 6] = [
        Self::Nothing,
        Self::Weights,
        Self::WeightsLater,
        Self::Gates,
        Self::GatesLater,
        Self::GatesAndSum,
    ];
}

/// A small mixture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mixture {
    pub(super) ggml_type: sys::ggml_type,
    pub(super) columns: usize,
    /// Rows of an expert.
    pub(super) rows: usize,
    pub(super) experts: usize,
    /// Experts of a token.
    pub(super) slots: usize,
    pub(super) tokens: usize,
    /// Whether the experts of a token share its activation, or each has its own.
    pub(super) shared: bool,
    pub(super) finish: Finish,
}

impl Mixture {
    /// The experts of each token, no two the same.
    fn ids(&self) -> Vec<i32> {
        let random = numbers(self.slots * self.tokens, 3);
        let of_token = |random: &[f32]| {
            let mut all: Vec<i32> = (0..self.experts as i32).collect();
            for (slot, number) in random.iter().enumerate() {
                let left = (self.experts - slot) as f32;
                let chosen = slot + ((number + 1.0) / 2.0 * left) as usize;
                all.swap(slot, chosen.min(self.experts - 1));
            }
            all.truncate(self.slots);
            all
        };
        random.chunks(self.slots).flat_map(of_token).collect()
    }

    /// The same product by the kernels and by llama.cpp; `None` if there is no memory for it.
    pub(super) fn results(&self) -> Option<(Vec<f32>, Vec<f32>)> {
        let results = self.rows * self.slots * self.tokens;
        let activations = if self.shared { 1 } else { self.slots };
        let given = numbers(self.columns * activations * self.tokens, 1);
        let values = [2, 5].map(|seed| numbers(self.columns * self.rows * self.experts, seed));
        let factors = numbers(self.slots * self.tokens, 4);
        let ids = self.ids();
        // The results of each operation, and what each product works with.
        let memory = 32 * results + 4 * given.len() + 16 * values[0].len() + 8 * ids.len();
        let plain = Tensors::new((1 << 20) + 4 * memory, false)?;
        let mut packed = Tensors::new(1 << 12, true)?;
        let experts = |tensors: &Tensors| {
            let shape = [self.columns, self.rows, self.experts];
            [0; 2].map(|_| tensors.tensors(self.ggml_type, shape))
        };
        let (weights, packed_weights) = (experts(&plain), experts(&packed));
        let input = plain.tensors(sys::GGML_TYPE_F32, [self.columns, activations, self.tokens]);
        let weighing = plain.tensors(sys::GGML_TYPE_F32, [1, self.slots, self.tokens]);
        let chosen = plain.tensor(sys::GGML_TYPE_I32, self.slots, self.tokens);
        // SAFETY: the tensors are of these sizes and of the contexts, which live until the end; the
        // ones in `plain` have memory behind them, the others get it from the buffer type. Graphs
        // are computed on this thread before the results are read.
        unsafe {
            packed.buffer = sys::ggml_backend_alloc_ctx_tensors_from_buft(
                packed.context.as_ptr(),
                calls::buffer_type(),
            );
            if packed.buffer.is_null() {
                return None;
            }
            for ((values, weights), packed) in values.iter().zip(weights).zip(packed_weights) {
                let in_file = sys::ggml_quantize_chunk(
                    self.ggml_type,
                    values.as_ptr(),
                    sys::ggml_get_data(weights),
                    0,
                    (self.rows * self.experts) as i64,
                    self.columns as i64,
                    ptr::null(),
                );
                sys::ggml_backend_tensor_set(packed, sys::ggml_get_data(weights), 0, in_file);
            }
            let room = sys::ggml_get_data_f32(input);
            slice::from_raw_parts_mut(room, given.len()).copy_from_slice(&given);
            let room = sys::ggml_get_data_f32(weighing);
            slice::from_raw_parts_mut(room, factors.len()).copy_from_slice(&factors);
            let room = sys::ggml_get_data(chosen).cast::<i32>();
            slice::from_raw_parts_mut(room, ids.len()).copy_from_slice(&ids);
            let context = plain.context.as_ptr();
            let graph = sys::ggml_new_graph(context);
            let expand = |tensor| {
                sys::ggml_build_forward_expand(graph, tensor);
                tensor
            };
            let multiply = |weights| expand(sys::ggml_mul_mat_id(context, weights, input, chosen));
            let weigh = |product| expand(sys::ggml_mul_inplace(context, product, weighing));
            let gate = |gate, up| expand(sys::ggml_swiglu_split(context, gate, up));
            let compute = |[up, gates]: [*mut sys::ggml_tensor; 2]| {
                let product = multiply(up);
                match self.finish {
                    Finish::Nothing => product,
                    Finish::Weights => weigh(product),
                    Finish::WeightsLater => {
                        multiply(gates);
                        weigh(product)
                    }
                    Finish::Gates => gate(multiply(gates), product),
                    Finish::GatesLater => {
                        let gates = multiply(gates);
                        multiply(up);
                        gate(gates, product)
                    }
                    Finish::GatesAndSum => {
                        let gated = gate(multiply(gates), product);
                        expand(sys::ggml_add(context, gated, product))
                    }
                }
            };
            let (ours, theirs) = (compute(packed_weights), compute(weights));
            if sys::ggml_graph_compute_with_ctx(context, graph, 1) != sys::GGML_STATUS_SUCCESS {
                return None;
            }
            let read =
                |matmul| slice::from_raw_parts(sys::ggml_get_data_f32(matmul), results).to_vec();
            Some((read(ours), read(theirs)))
        }
    }
}
