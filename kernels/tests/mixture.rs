//! Matmuls of experts: each result is bit-identical to that of its expert and activation alone,
//! with any other activations of the expert and any division among threads. Biases, gates and
//! weights are applied to these.
#![allow(unsafe_code, reason = "threads share the results of a matmul")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::common::{Case, Numbers, assert_same, matmul};
use graphmill_kernels::{Experts, Format, Gating, Kernels, MixtureMatmul, Output, Plan, Route};
use proptest::prelude::*;

/// What is done with the products.
#[derive(Clone, Copy, Debug, Default)]
struct Finish {
    biases: bool,
    gating: Option<Gating>,
    /// Whether the gate of an expert and the expert are one matrix.
    together: bool,
    weights: bool,
}

/// Experts and activations, and who is sent to whom.
struct Mixture {
    /// The experts, each with all activations.
    experts: Vec<Case>,
    routes: Vec<Route>,
}

impl Mixture {
    /// As in a model: each token has `used` different experts. They share an activation, or each
    /// has its own.
    fn random(
        format: Format,
        (experts, rows, cols): (usize, usize, usize),
        (tokens, used, shared): (usize, usize, bool),
        seed: u64,
    ) -> Self {
        let mut numbers = Numbers(seed);
        let each = if shared { 1 } else { used };
        let mut routes = Vec::new();
        for token in 0..tokens {
            let mut all: Vec<usize> = (0..experts).collect();
            for slot in 0..used {
                let chosen = slot + numbers.bits() as usize % (experts - slot);
                all.swap(slot, chosen);
                routes.push(Route {
                    expert: all[slot],
                    activation: token * each + slot % each,
                    result: token * used + slot,
                });
            }
        }
        Self::of(format, (experts, rows, cols), tokens * each, routes, seed)
    }

    fn of(
        format: Format,
        (experts, rows, cols): (usize, usize, usize),
        activations: usize,
        routes: Vec<Route>,
        seed: u64,
    ) -> Self {
        let first = Case::random(format, rows, cols, activations, seed);
        let experts = (0..experts as u64).map(|expert| Case {
            activations: first.activations.clone(),
            ..Case::random(format, rows, cols, activations, seed ^ (expert << 32))
        });
        Self {
            experts: experts.collect(),
            routes,
        }
    }

    /// What results may be multiplied by.
    fn weights(&self) -> Vec<f32> {
        (0..self.routes.len())
            .map(|result| 0.1 + result as f32 / 7.0)
            .collect()
    }

    /// What is added to the products of all rows of an expert.
    fn biases(&self, expert: usize) -> Vec<f32> {
        let rows = 0..self.experts[0].rows;
        rows.map(|row| (expert * 31 + row) as f32 / 97.0 - 0.5)
            .collect()
    }

    /// The results, each computed by itself, and those of the gates. The gate of an expert is the
    /// next expert.
    fn expected(&self, kernels: Kernels, biases: bool) -> [Vec<f32>; 2] {
        let rows = self.experts[0].rows;
        let all = self.experts.iter().enumerate().map(|(expert, case)| {
            let mut results = matmul(kernels, case, 1);
            if biases {
                let biases = self.biases(expert);
                for (at, result) in results.iter_mut().enumerate() {
                    *result += biases[at % rows];
                }
            }
            results
        });
        let all: Vec<Vec<f32>> = all.collect();
        [0, 1].map(|next| {
            let mut out = vec![f32::NAN; self.routes.len() * rows];
            for route in &self.routes {
                let expert = &all[(route.expert + next) % all.len()];
                out[route.result * rows..][..rows]
                    .copy_from_slice(&expert[route.activation * rows..][..rows]);
            }
            out
        })
    }

    /// The results, computed by some threads.
    fn computed(&self, kernels: Kernels, threads: usize, finish: Finish) -> Vec<f32> {
        let Case {
            format,
            rows,
            cols,
            tokens,
            ..
        } = self.experts[0];
        let count = self.experts.len();
        let bytes = kernels.packed_bytes(format, rows, cols);
        let bytes = bytes.expect("a shape with kernels");
        // Either all gates and then all experts, or each gate before its expert.
        let pairs = (0..count).map(|expert| [(expert + 1) % count, expert]);
        let order: Vec<usize> = if finish.together {
            pairs.flatten().collect()
        } else {
            [0, 1]
                .into_iter()
                .flat_map(|at| pairs.clone().map(move |pair| pair[at]))
                .collect()
        };
        let mut panels = vec![0; order.len() * bytes];
        let mut biases = Vec::new();
        for (expert, panels) in order.iter().zip(panels.chunks_exact_mut(bytes)) {
            kernels.pack(format, cols, &self.experts[*expert].weights, panels);
            biases.extend(self.biases(*expert));
        }
        let from = |matrices: usize| Experts {
            panels: &panels[matrices * bytes..],
            biases: finish.biases.then(|| &biases[matrices * rows..]),
        };
        let (step, first) = if finish.together {
            (2 * rows, 1)
        } else {
            (rows, count)
        };
        let mut activations = vec![0; tokens * kernels.activation_bytes(format, cols)];
        let source = &self.experts[0].activations;
        kernels.quantize(format, cols, source, &mut activations);
        let weights = self.weights();
        let work = MixtureMatmul {
            format,
            rows,
            cols,
            step,
            experts: from(first),
            activations: &activations,
            gates: finish.gating.map(|gating| (from(0), gating)),
            weights: finish.weights.then_some(&weights),
        };
        let next = AtomicUsize::new(0);
        let mut out = vec![f32::NAN; self.routes.len() * rows];
        // SAFETY: the results live longer than the threads, and nobody else reads or writes them
        // meanwhile.
        let results = unsafe { Output::new(out.as_mut_ptr(), out.len(), rows) };
        thread::scope(|scope| {
            let computing: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(|| {
                        let mut plan = Plan::default();
                        let shape = (self.experts.len(), rows);
                        plan.make(shape, threads, self.routes.iter().copied());
                        loop {
                            let part = next.fetch_add(1, Ordering::Relaxed);
                            if part >= plan.parts() {
                                break;
                            }
                            // SAFETY: the counter gives each part to one thread, and all have the
                            // same plan, in which no two routes have one result.
                            unsafe { kernels.multiply_mixture(&work, &plan, results, part) };
                        }
                    })
                })
                .collect();
            for thread in computing {
                thread.join().expect("it computes");
            }
        });
        out
    }

    fn check(&self, threads: usize) {
        let whole = self.experts[0].rows.is_multiple_of(32);
        let oai = Gating::Oai {
            alpha: 1.7,
            limit: 2.0,
        };
        for kernels in Kernels::all() {
            let cases = [
                (false, [Gating::Silu, Gating::Gelu]),
                (true, [Gating::Silu, oai]),
            ];
            for (biases, gatings) in cases {
                let [results, gates] = self.expected(kernels, biases);
                let plain = Finish {
                    biases,
                    ..Finish::default()
                };
                self.check_weighted(kernels, threads, plain, &results);
                for gating in gatings {
                    let with_gates = Finish {
                        gating: Some(gating),
                        ..plain
                    };
                    let expected = self.computed(kernels, threads, with_gates);
                    assert_gated(gating, &expected, &results, &gates);
                    self.check_weighted(kernels, threads, with_gates, &expected);
                    if whole {
                        let together = Finish {
                            together: true,
                            ..with_gates
                        };
                        self.check_weighted(kernels, threads, together, &expected);
                    }
                }
            }
        }
    }

    /// Checks results, and weighted ones.
    fn check_weighted(&self, kernels: Kernels, threads: usize, finish: Finish, expected: &[f32]) {
        let name = format!("{} {finish:?}", kernels.name());
        assert_same(&self.computed(kernels, threads, finish), expected, &name);
        let rows = self.experts[0].rows;
        let weights = self.weights();
        let weighted = expected.iter().enumerate();
        let weighted: Vec<f32> = weighted
            .map(|(at, result)| result * weights[at / rows])
            .collect();
        let finish = Finish {
            weights: true,
            ..finish
        };
        assert_same(&self.computed(kernels, threads, finish), &weighted, &name);
    }
}

/// That results are what gates make of others, but for what floats round.
fn assert_gated(gating: Gating, computed: &[f32], results: &[f32], gates: &[f32]) {
    let part = |x: f64, argument: f64| x / (1.0 + (-argument).exp());
    for ((computed, result), gate) in computed.iter().zip(results).zip(gates) {
        let (result, gate) = (f64::from(*result), f64::from(*gate));
        let expected = match gating {
            Gating::Silu => result * part(gate, gate),
            Gating::Gelu => {
                result
                    * part(
                        gate,
                        1.595_769_121_605_73 * (gate + 0.044_715 * gate.powi(3)),
                    )
            }
            Gating::Oai { alpha, limit } => {
                let (alpha, limit) = (f64::from(alpha), f64::from(limit));
                let gate = gate.min(limit);
                (result.clamp(-limit, limit) + 1.0) * part(gate, alpha * gate)
            }
        };
        let difference = (f64::from(*computed) - expected).abs();
        let room = 2e-5 * expected.abs() + 1e-6 * gate.abs().min(1e-6);
        assert!(difference <= room, "{gating:?}: {computed}, not {expected}");
    }
}

#[test]
fn results_are_those_of_each_expert_alone() {
    for format in Format::ALL {
        for (tokens, used, shared) in [(1, 4, true), (1, 4, false), (3, 2, true), (40, 3, false)] {
            for threads in [1, 3] {
                Mixture::random(format, (7, 70, 256), (tokens, used, shared), 21).check(threads);
            }
        }
    }
}

#[test]
fn one_expert_may_have_all_and_others_none() {
    for format in Format::ALL {
        let to = |expert: usize| {
            let route = move |number| Route {
                expert,
                activation: number,
                result: number,
            };
            (0..30).map(route).collect()
        };
        for expert in [0, 2] {
            Mixture::of(format, (3, 96, 256), 30, to(expert), 22).check(2);
        }
    }
}

/// More activations than are brought together at a time.
#[test]
fn many_activations_of_an_expert() {
    Mixture::random(Format::Q8_0, (2, 33, 64), (300, 2, true), 23).check(2);
}

#[test]
fn nothing_is_computed_without_routes() {
    let mixture = Mixture::of(Format::Q8_0, (3, 32, 32), 0, Vec::new(), 24);
    assert!(
        mixture
            .computed(Kernels::all()[0], 2, Finish::default())
            .is_empty()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn of_any_shape(format in 0..Format::ALL.len(), experts in 1..9usize, rows in 1..400usize, blocks in 1..4usize, tokens in 1..30usize, used in 1..9usize, shared: bool, threads in 1..5usize, seed: u64) {
        let format = Format::ALL[format];
        let cols = blocks * format.block();
        Mixture::random(format, (experts, rows, cols), (tokens, used.min(experts), shared), seed).check(threads);
    }
}
