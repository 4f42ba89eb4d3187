//! The matmul in plain Rust: a slow reference for the other kernels.

use crate::data::activation::ActivationLayout;
use crate::data::matmul::{Matmul, Output, Span};
use crate::data::panel::{self, BLOCK, ROWS, UnpackedRow};

/// Multiplies some of the panels by some of the activations.
///
/// # Safety
/// No other code may read or write the elements of `out` that belong to the span.
pub(crate) unsafe fn multiply(matmul: &Matmul<'_>, span: &Span, out: Output<'_>) {
    let layout = ActivationLayout::new(matmul.cols);
    let blocks = matmul.format.block() / BLOCK;
    let unit = panel::unit_bytes(matmul.format);
    for row in span.panels.start * ROWS..(span.panels.end * ROWS).min(matmul.rows) {
        let panel = &matmul.panels[row / ROWS * (layout.blocks() / blocks) * unit..];
        for token in span.tokens.clone() {
            let mut total = 0f32;
            for (block, (integers, factors)) in
                layout.blocks_of(matmul.activations, token).enumerate()
            {
                let unit = &panel[block / blocks * unit..];
                let UnpackedRow {
                    weights,
                    scale,
                    second,
                    minimum,
                    second_minimum,
                } = panel::unpack(matmul.format, unit, block % blocks, row % ROWS);
                let activation = factors.scale;
                let sum = |columns: std::ops::Range<usize>| {
                    let matmuls = columns
                        .map(|column| weights[column] * i32::from(integers[column].cast_signed()));
                    matmuls.sum::<i32>() as f32
                };
                if let Some(second) = second {
                    total = (sum(0..BLOCK / 2) * scale).mul_add(activation, total);
                    total = (sum(BLOCK / 2..BLOCK) * second).mul_add(activation, total);
                } else {
                    total = (sum(0..BLOCK) * scale).mul_add(activation, total);
                }
                let totals = factors.totals(second_minimum.is_some());
                for (minimum, numbers) in [minimum, second_minimum].into_iter().zip(totals) {
                    if let Some(minimum) = minimum {
                        total = (-minimum).mul_add(numbers, total);
                    }
                }
            }
            // SAFETY: the element is of this span, which is the caller's alone.
            unsafe { out.write(token, row, total) };
        }
    }
}
