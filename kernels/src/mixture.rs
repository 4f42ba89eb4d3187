//! Matmuls of the experts of a mixture: the activations of an expert are gathered and multiplied
//! like any others.

use std::cell::RefCell;

use crate::data::matmul::{Matmul, Output};
use crate::data::mixture::{Experts, MixtureMatmul, Plan, Route};
use crate::data::panel::ROWS;
use crate::kernels::Kernels;

/// Maximum number of activations that are gathered at a time. They use a panel often enough, and
/// stay in a cache with their results.
const TOKENS: usize = 256;

/// Elements of a cache line.
const LINE: usize = 16;

/// Memory that a thread uses again and again.
#[derive(Default)]
struct Space {
    activations: Vec<u8>,
    results: Vec<f32>,
    gates: Vec<f32>,
}

thread_local! {
    static SPACE: RefCell<Space> = RefCell::default();
}

impl Kernels {
    /// Computes a part of a plan that was made for experts of the matmul's shape. A route's result
    /// is a token of the output.
    ///
    /// # Safety
    /// Parts write disjoint elements of `out` if no two routes have the same result. No other code
    /// may read or write those meanwhile: no two threads may compute the same part at once.
    ///
    /// # Panics
    /// If a buffer is too small for the shape or the plan, or the format or shape is one that
    /// [`Kernels::packed_bytes`] refuses.
    pub unsafe fn multiply_mixture(
        &self,
        matmul: &MixtureMatmul<'_>,
        plan: &Plan,
        out: Output<'_>,
        part: usize,
    ) {
        let MixtureMatmul {
            format,
            rows,
            cols,
            step,
            ..
        } = *matmul;
        let (part, routes) = plan.part(part);
        for route in routes {
            assert!(
                out.holds(rows, route.result + 1),
                "room for result {}",
                route.result
            );
        }
        let row = part.panels.start * ROWS;
        let rows = rows.min(part.panels.end * ROWS) - row;
        let packed = |rows| self.packed_bytes(format, rows, cols).unwrap_or(0);
        let first = part.expert * packed(step) + part.panels.start * packed(ROWS);
        let panels = first..first + packed(rows);
        let biases = part.expert * step + row;
        let biases = biases..biases + rows;
        SPACE.with_borrow_mut(|space| {
            let Space {
                activations,
                results,
                gates,
            } = space;
            for routes in routes.chunks(TOKENS) {
                self.gather(matmul, routes, activations);
                let products = |experts: Experts<'_>, space| {
                    let strip = Matmul {
                        format,
                        rows,
                        cols,
                        panels: &experts.panels[panels.clone()],
                        tokens: routes.len(),
                        activations,
                    };
                    let results = self.together(&strip, space);
                    if let Some(all) = experts.biases {
                        add(&all[biases.clone()], results);
                    }
                    results
                };
                let results = products(matmul.experts, results);
                if let Some((experts, gating)) = matmul.gates {
                    self.gate(gating, results, products(experts, gates));
                }
                for (route, results) in routes.iter().zip(results.chunks_exact(stride(rows))) {
                    let weight = matmul.weights.map_or(1.0, |weights| weights[route.result]);
                    // SAFETY: the result has its place, and the caller promises that these rows of
                    // it are the part's alone.
                    let place = unsafe { out.at(route.result, row) };
                    for (number, result) in results[..rows].iter().enumerate() {
                        // SAFETY: as above.
                        unsafe { place.add(number).write(result * weight) };
                    }
                }
            }
        });
    }

    /// Copies the activations of some routes, one after the other.
    fn gather(self, matmul: &MixtureMatmul<'_>, routes: &[Route], activations: &mut Vec<u8>) {
        let bytes = self.activation_bytes(matmul.format, matmul.cols);
        activations.clear();
        for route in routes {
            activations.extend_from_slice(&matmul.activations[route.activation * bytes..][..bytes]);
        }
    }

    /// The results of a matmul, each at a [`stride`] from the one before.
    fn together<'a>(&self, matmul: &Matmul<'_>, space: &'a mut Vec<f32>) -> &'a mut [f32] {
        let stride = stride(matmul.rows);
        space.resize(matmul.tokens * stride + LINE, 0.0);
        let skipped = space.as_ptr().align_offset(4 * LINE).min(LINE);
        let results = &mut space[skipped..][..matmul.tokens * stride];
        // SAFETY: the elements are borrowed for this call alone.
        unsafe {
            let out = Output::new(results.as_mut_ptr(), results.len(), stride);
            self.multiply(matmul, out, 0, 1);
        }
        results
    }
}

/// Adds biases to each of some results.
fn add(biases: &[f32], results: &mut [f32]) {
    for results in results.chunks_exact_mut(stride(biases.len())) {
        for (result, bias) in results.iter_mut().zip(biases) {
            *result += bias;
        }
    }
}

/// Elements from one gathered result to the next: whole lines, and an odd number of them, so that
/// the results of a tile do not fall on the same few sets of a cache.
fn stride(rows: usize) -> usize {
    (rows.div_ceil(LINE) | 1) * LINE
}
