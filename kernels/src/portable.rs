//! The product in plain Rust: what the other kernels compute, slowly.

use crate::activation::{Factors, Layout};
use crate::panel::{self, ROWS};
use crate::product::{Output, Product, Span};

/// Multiplies some of the panels by some of the activations.
///
/// # Safety
/// Nobody else may read or write the numbers of `out` that belong to the span.
pub(crate) unsafe fn multiply(product: &Product<'_>, span: &Span, out: Output<'_>) {
    let layout = Layout::new(product.cols);
    let record = panel::record_bytes(product.format).unwrap_or_default();
    for row in span.panels.start * ROWS..(span.panels.end * ROWS).min(product.rows) {
        let panel = &product.panels[row / ROWS * layout.blocks() * record..];
        for token in span.tokens.clone() {
            let activation = &product.activations[token * layout.bytes()..];
            let mut total = 0f32;
            let (integers, factors) = layout.parts(&activation[..layout.bytes()]);
            for ((record, integers), factors) in
                panel.chunks_exact(record).zip(integers).zip(factors)
            {
                let (weights, scale) = panel::unpack(product.format, record, row % ROWS);
                let sum: i32 = weights
                    .iter()
                    .zip(integers)
                    .map(|(weight, integer)| weight * i32::from(integer.cast_signed()))
                    .sum();
                total = (sum as f32).mul_add(scale * Factors::read(factors).scale, total);
            }
            // SAFETY: the element is of this span, which is the caller's alone.
            unsafe { out.write(token, row, total) };
        }
    }
}
