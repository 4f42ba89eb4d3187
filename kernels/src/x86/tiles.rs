//! Activations by tiles, as the kernels read them: everything of one block together.

use crate::activation::{Factors, Layout};
use crate::panel::BLOCK;
use crate::product::Product;

/// A block of the activations of a tile.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Block<const TOKENS: usize> {
    pub(crate) integers: [[u8; BLOCK]; TOKENS],
    pub(crate) factors: [Factors; TOKENS],
}

impl<const TOKENS: usize> Block<TOKENS> {
    pub(crate) const ZERO: Self = Self {
        integers: [[0; BLOCK]; TOKENS],
        factors: [Factors::ZERO; TOKENS],
    };
}

/// Brings `count` activations from `first` together, `height` to a tile; a tile's blocks follow each other. Corrections are
/// shifted by some places.
pub(crate) fn gather<const TOKENS: usize>(
    product: &Product<'_>,
    first: usize,
    count: usize,
    height: usize,
    correction: u32,
    tiles: &mut Vec<Block<TOKENS>>,
) {
    let layout = Layout::new(product.cols);
    tiles.resize(count.div_ceil(height) * layout.blocks(), Block::ZERO);
    for at in 0..count {
        let row = &product.activations[(first + at) * layout.bytes()..][..layout.bytes()];
        let (tile, token) = (at / height, at % height);
        let blocks = &mut tiles[tile * layout.blocks()..][..layout.blocks()];
        let (integers, factors) = layout.parts(row);
        for ((block, integers), factors) in blocks.iter_mut().zip(integers).zip(factors) {
            block.integers[token] = *integers;
            let mut factors = Factors::read(factors);
            factors.corrections = factors.corrections.map(|number| number >> correction);
            block.factors[token] = factors;
        }
    }
}
