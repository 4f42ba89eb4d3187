//! Matmuls of experts: each result is bit-identical to that of its expert and activation alone,
//! with any other activations of the expert and any division among threads. Gates and weights are
//! applied to these.
#![allow(unsafe_code, reason = "threads share the results of a matmul")]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use common::{Case, Numbers, assert_same, matmul};
use graphmill_kernels::{Format, Kernels, MixtureMatmul, Output, Plan, Route};
use proptest::prelude::*;

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

    /// The results, each computed by itself, and those of the gates. The gate of an expert is the
    /// next expert.
    fn expected(&self, kernels: Kernels) -> [Vec<f32>; 2] {
        let rows = self.experts[0].rows;
        let all = self.experts.iter().map(|case| matmul(kernels, case, 1));
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
    fn computed(
        &self,
        kernels: Kernels,
        threads: usize,
        gated: bool,
        weights: Option<&[f32]>,
    ) -> Vec<f32> {
        let Case {
            format,
            rows,
            cols,
            tokens,
            ..
        } = self.experts[0];
        let bytes = kernels.packed_bytes(format, rows, cols);
        let bytes = bytes.expect("a shape with kernels");
        let mut panels = vec![0; self.experts.len() * bytes];
        for (case, panels) in self.experts.iter().zip(panels.chunks_exact_mut(bytes)) {
            kernels.pack(format, cols, &case.weights, panels);
        }
        let next = [&panels[bytes..], &panels[..bytes]].concat();
        let mut activations = vec![0; tokens * kernels.activation_bytes(format, cols)];
        let source = &self.experts[0].activations;
        kernels.quantize(format, cols, source, &mut activations);
        let work = MixtureMatmul {
            format,
            rows,
            cols,
            panels: &panels,
            activations: &activations,
            gates: gated.then_some(&next),
            weights,
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
        for kernels in Kernels::all() {
            let name = kernels.name();
            let [expected, gates] = self.expected(kernels);
            let computed = self.computed(kernels, threads, false, None);
            assert_same(&computed, &expected, name);
            let with_gates = self.computed(kernels, threads, true, None);
            for ((result, expected), gate) in with_gates.iter().zip(&expected).zip(&gates) {
                let gate = f64::from(*gate);
                let expected = f64::from(*expected) * gate / (1.0 + (-gate).exp());
                let difference = (f64::from(*result) - expected).abs();
                let room = 1e-5 * expected.abs() + 1e-30;
                assert!(difference <= room, "{name}: {result}, not {expected}");
            }
            let weights = self.weights();
            let weigh = |all: &mut [f32]| {
                let rows = all.chunks_exact_mut(self.experts[0].rows);
                for (results, weight) in rows.zip(&weights) {
                    for result in results {
                        *result *= weight;
                    }
                }
            };
            for (gated, mut expected) in [(false, expected), (true, with_gates)] {
                weigh(&mut expected);
                let computed = self.computed(kernels, threads, gated, Some(&weights));
                assert_same(&computed, &expected, name);
            }
        }
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
            .computed(Kernels::all()[0], 2, true, None)
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
