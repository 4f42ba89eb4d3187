//! Matmuls of the experts of a mixture: the activations of an expert are gathered and multiplied
//! like any others.

use std::cell::RefCell;

use crate::data::matmul::{Matmul, Output};
use crate::data::mixture::{MixtureMatmul, Plan, Route};
use crate::data::panel::ROWS;
use crate::kernels::Kernels;

/// Most activations that are gathered at a time: so many use a panel often enough, and
/// stay in a cache with their results.
const TOKENS: usize = 256;

/// Elements of a cache line.
const LINE: usize = 16;

/// Memory that a thread uses again and again.
#[derive(Default)]
struct Space {
    activations: Vec<u8>,
    results: Vec<f32>,
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
            format, rows, cols, ..
        } = *matmul;
        let (part, routes) = plan.part(part);
        let row = part.panels.start * ROWS;
        let packed = |rows| self.packed_bytes(format, rows, cols).unwrap_or(0);
        let strip = rows.min(part.panels.end * ROWS) - row;
        let first = part.expert * packed(rows) + part.panels.start * packed(ROWS);
        let strip = Matmul {
            format,
            rows: strip,
            cols,
            panels: &matmul.panels[first..][..packed(strip)],
            tokens: 1,
            activations: matmul.activations,
        };
        for route in routes {
            assert!(
                out.holds(rows, route.result + 1),
                "room for result {}",
                route.result
            );
        }
        // SAFETY: the results have their places, and the caller promises that these rows of them
        // are the part's alone.
        let place = |result| unsafe { out.at(result, row) };
        if let [route] = routes {
            let bytes = self.activation_bytes(format, cols);
            let strip = Matmul {
                activations: &matmul.activations[route.activation * bytes..],
                ..strip
            };
            // SAFETY: as above.
            unsafe {
                let out = Output::new(place(route.result), strip.rows, strip.rows);
                self.multiply(&strip, out, 0, 1);
            }
            return;
        }
        SPACE.with_borrow_mut(|space| {
            for routes in routes.chunks(TOKENS) {
                for (route, results) in routes.iter().zip(self.together(&strip, routes, space)) {
                    // SAFETY: as above; there is an element for each row of the strip.
                    unsafe {
                        place(route.result).copy_from_nonoverlapping(results.as_ptr(), strip.rows);
                    }
                }
            }
        });
    }

    /// Multiplies the activations of some routes by a strip. Gives the results of each.
    fn together<'a>(
        &self,
        strip: &Matmul<'_>,
        routes: &[Route],
        Space {
            activations,
            results,
        }: &'a mut Space,
    ) -> impl Iterator<Item = &'a [f32]> {
        let bytes = self.activation_bytes(strip.format, strip.cols);
        activations.clear();
        for route in routes {
            activations.extend_from_slice(&strip.activations[route.activation * bytes..][..bytes]);
        }
        // Whole lines, and an odd number of them, so that the results of a tile do not fall on the
        // same few sets of a cache.
        let stride = (strip.rows.div_ceil(LINE) | 1) * LINE;
        results.resize(routes.len() * stride + LINE, 0.0);
        let skipped = results.as_ptr().align_offset(4 * LINE).min(LINE);
        let results = &mut results[skipped..][..routes.len() * stride];
        let matmul = Matmul {
            tokens: routes.len(),
            activations,
            ..*strip
        };
        // SAFETY: the elements are borrowed for this call alone.
        unsafe {
            let out = Output::new(results.as_mut_ptr(), results.len(), stride);
            self.multiply(&matmul, out, 0, 1);
        }
        results.chunks_exact(stride)
    }
}
