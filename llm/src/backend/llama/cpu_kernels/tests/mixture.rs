//! Products of experts, of all formats and with all that follows them, compared with llama.cpp's
//! own.

use std::slice;

use llama_cpp_sys_2 as sys;

use super::super::tensors::{Tensors, numbers};
use super::super::{FORMATS, calls, check};
use super::attached;

/// Operations applied to the products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finish {
    Nothing,
    /// Each row is multiplied by a weight.
    Weights,
    /// The biases of the experts are added.
    Biases,
    BiasesAndWeights,
    /// The products are multiplied by the `SiLU` of the products of gates.
    Silu,
    /// The products are multiplied by the GELU of the products of gates.
    Gelu,
    /// Gates and products are combined as in gpt-oss.
    Oai,
    /// As `Oai`, with biases for gates and products.
    BiasesAndOai,
    /// Gates and results are the two halves of one product.
    Halves,
    BiasesAndHalves,
}

/// Position of the finishing operations in the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FinishPlace {
    /// Directly behind the products.
    Next,
    /// Behind another, unrelated product.
    Later,
    /// Directly behind the products. The first product and the sum of its biases are also added to
    /// the result.
    Read,
    /// Directly behind the products. The products are computed a second time without these
    /// operations, and their biases are added behind another product.
    Again,
}

impl Finish {
    const ALL: [Self; 10] = [
        Self::Nothing,
        Self::Weights,
        Self::Biases,
        Self::BiasesAndWeights,
        Self::Silu,
        Self::Gelu,
        Self::Oai,
        Self::BiasesAndOai,
        Self::Halves,
        Self::BiasesAndHalves,
    ];

    fn biases(self) -> bool {
        matches!(
            self,
            Self::Biases | Self::BiasesAndWeights | Self::BiasesAndOai | Self::BiasesAndHalves
        )
    }

    fn halves(self) -> bool {
        matches!(self, Self::Halves | Self::BiasesAndHalves)
    }
}

/// A small mixture of experts to check.
#[derive(Clone, Copy, Debug)]
struct Mixture {
    ggml_type: sys::ggml_type,
    columns: usize,
    /// Rows of each expert's matrix.
    rows: usize,
    experts: usize,
    /// Number of experts per token.
    slots: usize,
    tokens: usize,
    /// True if the experts of a token share its activation; false if each has its own.
    shared: bool,
    finish: Finish,
    place: FinishPlace,
}

impl Mixture {
    /// Returns distinct experts for each token.
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

    /// Computes the same product with the kernels and with llama.cpp; `None` if there is not enough
    /// memory.
    fn results(&self) -> Option<(Vec<f32>, Vec<f32>)> {
        let results = self.rows * self.slots * self.tokens;
        let activations = if self.shared { 1 } else { self.slots };
        let given = numbers(self.columns * activations * self.tokens, 1);
        // Number of matrices, and the rows of an expert in each.
        let (matrices, rows) = if self.finish.halves() {
            (1, 2 * self.rows)
        } else {
            (2, self.rows)
        };
        let values = numbers(self.columns * rows * self.experts, 2);
        let added = numbers(rows * self.experts, 5);
        let factors = numbers(self.slots * self.tokens, 4);
        let ids = self.ids();
        // The results of each operation, and the inputs of each product.
        let memory = 64 * results + 4 * given.len() + 32 * values.len() + 8 * ids.len();
        let plain = Tensors::new((1 << 20) + 4 * memory, false)?;
        let mut packed = Tensors::new(1 << 12, true)?;
        let shape = [self.columns, rows, self.experts];
        let (mut weights, mut packed_weights) = (Vec::new(), Vec::new());
        for number in 0..matrices {
            let mut values = values.clone();
            values.rotate_left(number * self.columns);
            weights.push(plain.filled(self.ggml_type, shape, &values));
            packed_weights.push(packed.tensor(self.ggml_type, shape));
        }
        packed.allocate(calls::buffer_type())?;
        let floats = |shape, numbers: &[f32]| plain.filled(sys::GGML_TYPE_F32, shape, numbers);
        let biases = floats([rows, self.experts, 1], &added);
        let input = floats([self.columns, activations, self.tokens], &given);
        let weighing = floats([1, self.slots, self.tokens], &factors);
        let chosen = plain.tensor(sys::GGML_TYPE_I32, [self.slots, self.tokens, 1]);
        // SAFETY: the tensors are of these sizes and of the contexts, which live until the end; all
        // have memory behind them. Graphs are computed on this thread before the results are read.
        unsafe {
            for (weights, packed) in weights.iter().zip(&packed_weights) {
                let (source, in_file) = (sys::ggml_get_data(*weights), sys::ggml_nbytes(*weights));
                sys::ggml_backend_tensor_set(*packed, source, 0, in_file);
            }
            let room = sys::ggml_get_data(chosen).cast::<i32>();
            slice::from_raw_parts_mut(room, ids.len()).copy_from_slice(&ids);
            let context = plain.context.as_ptr();
            let graph = sys::ggml_new_graph(context);
            let expand = |tensor| {
                sys::ggml_build_forward_expand(graph, tensor);
                tensor
            };
            let multiply = |weights| expand(sys::ggml_mul_mat_id(context, weights, input, chosen));
            let half = |result: *mut sys::ggml_tensor, second: usize| {
                let [_, slots, tokens, _] = (*result).ne;
                let [_, of_slot, of_token, _] = (*result).nb;
                let offset = second * self.rows * size_of::<f32>();
                let rows = self.rows as i64;
                expand(sys::ggml_view_3d(
                    context, result, rows, slots, tokens, of_slot, of_token, offset,
                ))
            };
            let compute = |weights: &[*mut sys::ggml_tensor]| {
                // Operations that precede the finishing ones.
                let before = || {
                    if self.place == FinishPlace::Later {
                        multiply(weights[0]);
                    }
                };
                let result = |number: usize| {
                    let product = multiply(weights[number]);
                    if !self.finish.biases() {
                        return [product; 2];
                    }
                    before();
                    let sum = sys::ggml_add_id(context, product, biases, chosen);
                    [product, expand(sum)]
                };
                let first = result(0);
                let gated = || {
                    if self.finish.halves() {
                        return [half(first[1], 0), half(first[1], 1)];
                    }
                    [result(1)[1], first[1]]
                };
                let finished = match self.finish {
                    Finish::Nothing | Finish::Biases => first[1],
                    Finish::Weights | Finish::BiasesAndWeights => {
                        before();
                        sys::ggml_mul_inplace(context, first[1], weighing)
                    }
                    Finish::Silu | Finish::Halves | Finish::BiasesAndHalves => {
                        let [gate, up] = gated();
                        before();
                        sys::ggml_swiglu_split(context, gate, up)
                    }
                    Finish::Gelu => {
                        let [gate, up] = gated();
                        before();
                        sys::ggml_geglu_split(context, gate, up)
                    }
                    Finish::Oai | Finish::BiasesAndOai => {
                        let [gate, up] = gated();
                        before();
                        sys::ggml_swiglu_oai(context, gate, up, 1.7, 7.0)
                    }
                };
                let finished = expand(finished);
                if self.place == FinishPlace::Again {
                    return first;
                }
                if self.place != FinishPlace::Read {
                    return [finished; 2];
                }
                let sum = first.iter().fold(finished, |sum, read| {
                    let read = if self.finish.halves() {
                        half(*read, 1)
                    } else {
                        *read
                    };
                    expand(sys::ggml_add(context, sum, read))
                });
                [sum; 2]
            };
            let sides = [&packed_weights, &weights];
            let computed = sides.map(|weights| compute(weights));
            let compute = |graph| {
                let status = sys::ggml_graph_compute_with_ctx(context, graph, 1);
                (status == sys::GGML_STATUS_SUCCESS).then_some(())
            };
            compute(graph)?;
            if self.place == FinishPlace::Again {
                let again = sys::ggml_new_graph(context);
                for ([product, sum], weights) in computed.into_iter().zip(sides) {
                    let other = sys::ggml_mul_mat_id(context, weights[0], input, chosen);
                    for tensor in [product, other, sum] {
                        sys::ggml_build_forward_expand(again, tensor);
                    }
                }
                compute(again)?;
            }
            let [ours, theirs] = computed.map(|[_, result]| {
                let count = sys::ggml_nelements(result) as usize;
                slice::from_raw_parts(sys::ggml_get_data_f32(result), count).to_vec()
            });
            Some((ours, theirs))
        }
    }
}

#[test]
fn experts_are_multiplied_as_by_llama_cpp() {
    if !attached() {
        return;
    }
    let mixture = |(experts, slots, tokens, shared)| Mixture {
        ggml_type: 0,
        columns: 512,
        rows: 75,
        experts,
        slots,
        tokens,
        shared,
        finish: Finish::Nothing,
        place: FinishPlace::Next,
    };
    let cases = [
        // A token whose experts share its activation, or each have their own.
        (7, 3, 1, true),
        (7, 3, 1, false),
        // Some with nothing to do, or with one activation.
        (16, 2, 5, true),
        (7, 3, 60, true),
        (7, 3, 60, false),
        // All have all.
        (2, 2, 40, true),
        (1, 1, 20, false),
    ];
    let places = |finish| {
        [
            FinishPlace::Next,
            FinishPlace::Later,
            FinishPlace::Read,
            FinishPlace::Again,
        ]
        .map(|place| (finish, place))
    };
    let all: Vec<_> = Finish::ALL.into_iter().flat_map(places).collect();
    let some = [
        (Finish::Nothing, FinishPlace::Next),
        (Finish::BiasesAndHalves, FinishPlace::Next),
    ];
    for (ggml_type, _) in FORMATS {
        // What finishes products is the same for all types.
        let finishes = if ggml_type == FORMATS[0].0 {
            &all[..]
        } else {
            &some
        };
        for case in cases {
            for (finish, place) in finishes {
                // Halves that are whole panels, and others.
                for rows in [64, 75] {
                    let mixture = Mixture {
                        ggml_type,
                        rows,
                        finish: *finish,
                        place: *place,
                        ..mixture(case)
                    };
                    let (ours, theirs) = mixture.results().expect("memory");
                    assert_eq!(check::compare("", &ours, &theirs), Ok(()), "{mixture:?}");
                }
            }
        }
    }
}
