//! Products of the experts of a mixture, computed by the kernels in place of ggml, through
//! `matmul.cpp`.
//!
//! Products are fused with the operations behind them, because prompts of a mixture are then read
//! 1.18 times as fast with AVX512-VNNI, and 1.09 times with AVX2 (decision record 53).

use std::cell::RefCell;
use std::slice;

use graphmill_kernels::{Experts, Gating, MixtureMatmul, Output, Plan, Route};

use super::calls::{RawMatmul, RawMatrix, next_parts};
use super::panics::{guarded, guarded_in};
use super::{ATTACHED, Matrix};

/// Mirrors `graphmill_mixture` of `shim.h`, field by field.
#[repr(C)]
struct RawMixture {
    matmul: RawMatmul,
    ids: *const u8,
    slots: i64,
    tokens: i64,
    strides: [usize; 2],
    /// One number for each row of each expert, or null.
    biases: *const f32,
    /// One factor for each result, or null.
    weights: *const f32,
    gates: RawGates,
}

/// Mirrors `graphmill_gates` of `shim.h`, field by field.
#[repr(C)]
struct RawGates {
    /// A value of `graphmill_gating`.
    gating: i32,
    alpha: f32,
    limit: f32,
    halves: bool,
    packed: *const u8,
    biases: *const f32,
}

thread_local! {
    /// Each thread makes its own plan, which takes less time than waiting for another thread's.
    static PLAN: RefCell<Plan> = RefCell::default();
}

impl RawGates {
    fn gating(&self) -> Option<Gating> {
        match self.gating {
            1 => Some(Gating::Silu),
            2 => Some(Gating::Gelu),
            3 => Some(Gating::Oai {
                alpha: self.alpha,
                limit: self.limit,
            }),
            _ => None,
        }
    }
}

impl RawMixture {
    fn slots(&self) -> usize {
        usize::try_from(self.slots).unwrap_or(0)
    }

    fn tokens(&self) -> usize {
        usize::try_from(self.tokens).unwrap_or(0)
    }

    /// Returns a route from each token to each expert in its slots.
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

/// Returns the matrices of all experts, with their biases.
///
/// # Safety
/// They must be as long as the matrix says, or absent.
unsafe fn experts<'a>(
    matrix: Matrix,
    packed: *const u8,
    biases: *const f32,
) -> Option<Experts<'a>> {
    let bytes = matrix.packed_bytes()?;
    let rows = matrix.rows * matrix.experts;
    // SAFETY: as the caller promises.
    unsafe {
        Some(Experts {
            panels: slice::from_raw_parts(packed, bytes),
            biases: (!biases.is_null()).then(|| slice::from_raw_parts(biases, rows)),
        })
    }
}

/// Returns the second half of each expert's rows, if the first half is the gates.
fn second_half(matrix: Matrix, whole: Experts<'_>) -> Option<Experts<'_>> {
    let half = Matrix {
        rows: matrix.rows / 2,
        experts: 1,
        ..matrix
    };
    Some(Experts {
        panels: &whole.panels[half.packed_bytes()?..],
        biases: whole.biases.map(|biases| &biases[half.rows..]),
    })
}

/// Returns true if each half of a matrix's rows is packed separately.
#[unsafe(no_mangle)]
extern "C" fn graphmill_kernels_halves(matrix: &RawMatrix) -> bool {
    guarded(|| {
        let rows = matrix.matrix().rows;
        ATTACHED
            .get()
            .is_some_and(|kernels| rows.is_multiple_of(2 * kernels.panel_rows()))
    })
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
        let gating = mixture.gates.gating();
        let halves = gating.is_some() && mixture.gates.halves;
        let rows = if halves { matrix.rows / 2 } else { matrix.rows };
        let results = mixture.tokens() * mixture.slots();
        let activations = matmul.activations() * matrix.activation_bytes();
        // SAFETY: the packed weights are as long as was asked for, and are not written any more,
        // as are biases. Gates that are no halves have the form of the product. The activations are
        // in the scratch memory, which nobody writes until the product is done. The result has a
        // row of `rows` numbers for each slot of each token, and there is a factor for each of
        // these, where they are weighted.
        let (whole, gates, weights, activations, out) = unsafe {
            let gates = (gating.is_some() && !halves)
                .then(|| experts(matrix, mixture.gates.packed, mixture.gates.biases));
            (
                experts(matrix, matmul.packed, mixture.biases),
                gates.flatten(),
                (!mixture.weights.is_null())
                    .then(|| slice::from_raw_parts(mixture.weights, results)),
                slice::from_raw_parts(matmul.scratch(), activations),
                Output::new(matmul.out, results * rows, rows),
            )
        };
        let (Some(kernels), Some(format), Some(whole)) = (ATTACHED.get(), matrix.format(), whole)
        else {
            return;
        };
        let (products, gates) = if halves {
            let Some(products) = second_half(matrix, whole) else {
                return;
            };
            (products, Some(whole))
        } else {
            (whole, gates)
        };
        let work = MixtureMatmul {
            format,
            rows,
            cols: matrix.columns,
            step: matrix.rows,
            experts: products,
            activations,
            gates: gates.zip(gating),
            weights,
        };
        PLAN.with_borrow_mut(|plan| {
            let shape = (matrix.experts, rows);
            // SAFETY: ggml has them there, and nobody writes them until the product is done.
            plan.make(shape, matmul.threads as usize, unsafe { mixture.routes() });
            // SAFETY: the pool is computing this product, and gives each part to one thread only.
            // All threads have the same plan, and each route has a result of its own.
            unsafe {
                for part in next_parts(matmul.pool, plan.parts()) {
                    kernels.multiply_mixture(&work, plan, out, part);
                }
            }
        });
    });
}
