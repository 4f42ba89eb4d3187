//! Weights of 16-bit floating point. They are packed unchanged and multiplied by unquantized
//! activations. Each element of a result adds its products in the order of the columns.

use crate::data::format::Format;
use crate::data::half;
use crate::data::matmul::{Matmul, Output, Span};
use crate::data::panel::ROWS;

/// Bytes of a column of a panel.
pub(crate) const COLUMN: usize = 2 * ROWS;

/// Elements from one activation to the next: an odd number of cache lines, so that the rows of a
/// tile do not fall on the same few sets of a cache.
pub(crate) fn stride(cols: usize) -> usize {
    (cols.div_ceil(16) | 1) * 16
}

/// Packs rows, column after column; those that the last panel lacks are zero.
pub(crate) fn pack(cols: usize, source: &[u8], panels: &mut [u8]) {
    for (panel, rows) in panels
        .chunks_exact_mut(cols * COLUMN)
        .zip(source.chunks(ROWS * 2 * cols))
    {
        let rows = rows.as_chunks::<2>().0;
        for (col, column) in panel.chunks_exact_mut(COLUMN).enumerate() {
            for (row, weight) in column.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                *weight = rows.get(row * cols + col).copied().unwrap_or([0; 2]);
            }
        }
    }
}

/// Copies an activation as floats of 4 bytes.
pub(crate) fn copy(source: &[f32], row: &mut [u8]) {
    for (number, bytes) in source.iter().zip(row.as_chunks_mut().0) {
        *bytes = number.to_ne_bytes();
    }
}

/// Multiplies some of the panels by some of the activations.
///
/// # Safety
/// No other code may read or write the elements of `out` that belong to the span.
pub(crate) unsafe fn multiply(matmul: &Matmul<'_>, span: &Span, out: Output<'_>) {
    let widen = match matmul.format {
        Format::Bf16 => |bits: u16| f32::from_bits(u32::from(bits) << 16),
        _ => half::to_f32,
    };
    let cols = matmul.cols;
    for row in span.panels.start * ROWS..(span.panels.end * ROWS).min(matmul.rows) {
        let panel = &matmul.panels[row / ROWS * cols * COLUMN..][..cols * COLUMN];
        for token in span.tokens.clone() {
            let activation = &matmul.activations[token * 4 * stride(cols)..][..4 * cols];
            let mut total = 0f32;
            for (column, number) in panel.chunks_exact(COLUMN).zip(activation.as_chunks().0) {
                let [low, high] = [column[row % ROWS * 2], column[row % ROWS * 2 + 1]];
                let weight = widen(u16::from_le_bytes([low, high]));
                total = weight.mul_add(f32::from_ne_bytes(*number), total);
            }
            // SAFETY: the element is of this span, which is the caller's alone.
            unsafe { out.write(token, row, total) };
        }
    }
}
