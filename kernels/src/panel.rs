//! Weights as the kernels read them.
//!
//! A panel holds [`ROWS`] rows, a record for each block of [`BLOCK`] columns. In a record come first the weights, in groups of four neighbours
//! of one row, which one lane of an instruction multiplies: the groups of all rows for columns 0 to 3, then those for columns 4 to 7, and so on.
//! Weights of 4 bits share bytes as in the file: the low half of a byte is 16 columns before the high half. Behind the weights are the scales of the
//! rows, as the file has them.

use crate::{Format, half};

/// Rows of a panel.
pub(crate) const ROWS: usize = 32;
/// Columns of a record, and of a block of activations.
pub(crate) const BLOCK: usize = 32;

/// Bytes of a record's weights, without its scales.
pub(crate) fn weight_bytes(format: Format) -> Option<usize> {
    match format {
        Format::Q8_0 => Some(ROWS * BLOCK),
        Format::Q4_0 => Some(ROWS * BLOCK / 2),
        Format::Q4K | Format::Q5K | Format::Q6K => None,
    }
}

/// Bytes of a record.
pub(crate) fn record_bytes(format: Format) -> Option<usize> {
    Some(weight_bytes(format)? + 2 * ROWS)
}

/// Packs rows; those that the last panel lacks are zero.
pub(crate) fn pack(format: Format, cols: usize, source: &[u8], panels: &mut [u8]) {
    let (Some(weights), Some(record)) = (weight_bytes(format), record_bytes(format)) else {
        unreachable!("packed_bytes refuses {format:?}");
    };
    let blocks = cols / BLOCK;
    let row_bytes = format.row_bytes(cols);
    for (panel, rows) in panels
        .chunks_exact_mut(blocks * record)
        .zip(source.chunks(ROWS * row_bytes))
    {
        if rows.len() < ROWS * row_bytes {
            panel.fill(0);
        }
        for (lane, row) in rows.chunks_exact(row_bytes).enumerate() {
            for (block, out) in row
                .chunks_exact(format.block_bytes())
                .zip(panel.chunks_exact_mut(record))
            {
                for (group, four) in block[2..].chunks_exact(4).enumerate() {
                    out[(group * ROWS + lane) * 4..][..4].copy_from_slice(four);
                }
                out[weights + 2 * lane..][..2].copy_from_slice(&block[..2]);
            }
        }
    }
}

/// The weights of one row in a record, and its scale.
pub(crate) fn unpack(format: Format, record: &[u8], lane: usize) -> ([i32; BLOCK], f32) {
    let mut weights = [0; BLOCK];
    let at = |group: usize, byte: usize| record[(group * ROWS + lane) * 4 + byte];
    for (column, weight) in weights.iter_mut().enumerate() {
        *weight = match format {
            Format::Q4_0 if column < 16 => i32::from(at(column / 4, column % 4) & 15) - 8,
            Format::Q4_0 => i32::from(at(column / 4 - 4, column % 4) >> 4) - 8,
            _ => i32::from(at(column / 4, column % 4).cast_signed()),
        };
    }
    let scales = weight_bytes(format).unwrap_or_default();
    (weights, half::read(&record[scales + 2 * lane..]))
}
