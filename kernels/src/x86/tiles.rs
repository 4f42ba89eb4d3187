//! Activations by tiles, as the kernels read them: everything of one block together.

use crate::activation::{BYTES, Factors, Layout, ORIGIN};
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
) -> Tiles<Block<TOKENS>> {
    let layout = Layout::new(product.cols);
    tiles.resize(count.div_ceil(height) * layout.blocks(), Block::ZERO);
    for at in 0..count {
        let (tile, token) = (at / height, at % height);
        let blocks = &mut tiles[tile * layout.blocks()..][..layout.blocks()];
        let row = layout.blocks_of(product.activations, first + at);
        for (block, (integers, mut factors)) in blocks.iter_mut().zip(row) {
            block.integers[token] = *integers;
            let origin = ORIGIN.to_bits().cast_signed();
            factors.starts = factors
                .starts
                .map(|start| origin + ((start - origin) >> correction));
            block.factors[token] = factors;
        }
    }
    Tiles {
        first: tiles.as_ptr(),
        step: layout.blocks(),
    }
}

/// Where the blocks of tiles are.
#[derive(Clone, Copy)]
pub(crate) struct Tiles<T> {
    pub(crate) first: *const T,
    /// From one tile to the next.
    pub(crate) step: usize,
}

/// Activations where they are, `height` to a tile.
pub(crate) fn in_place(product: &Product<'_>, first: usize, height: usize) -> Tiles<[u8; BYTES]> {
    let room = Layout::new(product.cols).room();
    Tiles {
        first: product.activations.as_chunks().0[first * room..].as_ptr(),
        step: height * room,
    }
}
