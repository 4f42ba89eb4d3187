//! Products of the experts of a mixture that ggml leaves to the kernels, through `matmul.cpp`.

use std::cell::RefCell;
use std::slice;

use graphmill_kernels::{MixtureMatmul, Output, Plan, Route};

use super::ATTACHED;
use super::calls::{RawMatmul, graphmill_kernels_next_share};
use super::panics::guarded_in;

/// `graphmill_mixture` of `shim.h`.
#[repr(C)]
struct RawMixture {
    matmul: RawMatmul,
    ids: *const u8,
    slots: i64,
    tokens: i64,
    strides: [usize; 2],
    /// The packed gates of the experts, or null.
    gates: *const u8,
    /// For each result, or null.
    weights: *const f32,
}

thread_local! {
    /// Each thread makes the plan for itself, which takes less than to wait for another's.
    static PLAN: RefCell<Plan> = RefCell::default();
}

impl RawMixture {
    fn slots(&self) -> usize {
        usize::try_from(self.slots).unwrap_or(0)
    }

    fn tokens(&self) -> usize {
        usize::try_from(self.tokens).unwrap_or(0)
    }

    /// Who is sent to whom: each token to the experts in its slots.
    ///
    /// # Safety
    /// The experts' numbers must be where the mixture says.
    unsafe fn routes(&self) -> impl Iterator<Item = Route> + Clone {
        let (slots, tokens) = (self.slots(), self.tokens());
        let activations = self.matmul.counts[0] as usize;
        (0..tokens * slots).map(move |result| {
            let (token, slot) = (result / slots, result % slots);
            let place = slot * self.strides[0] + token * self.strides[1];
            // SAFETY: as the caller promises.
            let expert = unsafe { self.ids.add(place).cast::<i32>().read_unaligned() };
            Route {
                // What is below zero is too large.
                expert: expert as usize,
                activation: token * activations + slot % activations,
                result,
            }
        })
    }
}

/// Computes parts of a product of experts until none is left.
///
/// # Safety
/// The product is as ggml describes it for the calling thread, nobody else uses the scratch memory,
/// and `graphmill_kernels_quantize` has returned on all threads.
#[unsafe(no_mangle)]
unsafe extern "C" fn graphmill_kernels_multiply_mixture(mixture: &RawMixture) {
    let matmul = &mixture.matmul;
    guarded_in(matmul.pool, || {
        let matrix = matmul.matrix.matrix();
        let (Some(kernels), Some(format), Some(packed_bytes)) =
            (ATTACHED.get(), matrix.format(), matrix.packed_bytes())
        else {
            return;
        };
        let results = mixture.tokens() * mixture.slots();
        let activations = matmul.activations() * matrix.activation_bytes();
        // SAFETY: the packed weights are as long as was asked for, and are not written any more.
        // The activations are in the scratch memory, which nobody writes until the product is done.
        // The result has a row of `matrix.rows` numbers for each slot of each token.
        // Gates, where there are any, are packed like the weights, and there is a factor for each
        // row of the result, where these are weighted.
        let (gates, weights, panels, activations, out) = unsafe {
            (
                (!mixture.gates.is_null())
                    .then(|| slice::from_raw_parts(mixture.gates, packed_bytes)),
                (!mixture.weights.is_null())
                    .then(|| slice::from_raw_parts(mixture.weights, results)),
                slice::from_raw_parts(matmul.packed, packed_bytes),
                slice::from_raw_parts(matmul.scratch(), activations),
                Output::new(matmul.out, results * matrix.rows, matrix.rows),
            )
        };
        let work = MixtureMatmul {
            format,
            rows: matrix.rows,
            cols: matrix.columns,
            panels,
            activations,
            gates,
            weights,
        };
        PLAN.with_borrow_mut(|plan| {
            let shape = (matrix.experts, matrix.rows);
            // SAFETY: ggml has them there, and nobody writes them until the product is done.
            plan.make(shape, matmul.threads as usize, unsafe { mixture.routes() });
            loop {
                // SAFETY: the pool is computing this product.
                let part = unsafe { graphmill_kernels_next_share(matmul.pool) } as usize;
                if part >= plan.parts() {
                    break;
                }
                // SAFETY: the pool gives each number to one thread only, all have the same plan,
                // and each route has a result of its own.
                unsafe { kernels.multiply_mixture(&work, plan, out, part) };
            }
        });
    });
}
