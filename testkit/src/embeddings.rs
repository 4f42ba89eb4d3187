//! Rows of the embeddings of the model in this repository.

use std::path::Path;

/// Number of values in a row.
pub const WIDTH: usize = 192;
/// Bytes of all tensors of the file, of which the embeddings are the first.
const TENSORS: usize = 3_247_872;
/// Number of values that share a scale (`Q8_0`).
const BLOCK: usize = 32;

/// Returns the embeddings of these tokens, [`WIDTH`] values for each.
pub fn rows(model: &Path, tokens: &[i32]) -> Vec<f32> {
    let file = std::fs::read(model).expect("the model");
    let matrix = &file[file.len() - TENSORS..];
    let row = WIDTH / BLOCK * (BLOCK + 2);
    let mut numbers = Vec::with_capacity(tokens.len() * WIDTH);
    for token in tokens {
        for block in matrix[*token as usize * row..][..row].chunks(BLOCK + 2) {
            let scale = scale(u16::from_le_bytes([block[0], block[1]]));
            let quants = block[2..].iter().map(|quant| f32::from(*quant as i8));
            numbers.extend(quants.map(|quant| scale * quant));
        }
    }
    numbers
}

/// Reads a half-precision scale, which is neither subnormal nor negative.
fn scale(bits: u16) -> f32 {
    let exponent = i32::from(bits >> 10) - 25;
    f32::from(bits & 0x3ff | 0x400) * 2f32.powi(exponent)
}
