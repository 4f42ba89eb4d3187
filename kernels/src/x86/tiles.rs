//! Activations by tiles, as the kernels read them: everything of one block together.

use crate::activation::{BYTES, Factors, Layout, ORIGIN};
use crate::panel::BLOCK;
use crate::product::Product;

/// A block of the activations of a tile.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Block<const TOKENS: usize> {
    pub(crate) integers: [[u8; BLOCK]; TOKENS],
    /// The factors, as in [`Factors`].
    pub(crate) scales: [f32; TOKENS],
    pub(crate) totals: [f32; TOKENS],
    pub(crate) starts: [[i32; 3]; TOKENS],
}

impl<const TOKENS: usize> Block<TOKENS> {
    pub(crate) const ZERO: Self = Self {
        integers: [[0; BLOCK]; TOKENS],
        scales: [0.0; TOKENS],
        totals: [0.0; TOKENS],
        starts: [[0; 3]; TOKENS],
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
    let origin = ORIGIN.to_bits().cast_signed();
    tiles.resize(count.div_ceil(height) * layout.blocks(), Block::ZERO);
    for at in 0..count {
        let (tile, token) = (at / height, at % height);
        let blocks = &mut tiles[tile * layout.blocks()..][..layout.blocks()];
        let row = layout.blocks_of(product.activations, first + at);
        for (block, (integers, factors)) in blocks.iter_mut().zip(row) {
            let Factors {
                scale,
                starts,
                total,
            } = factors;
            block.integers[token] = *integers;
            block.scales[token] = scale;
            block.totals[token] = total;
            block.starts[token] = starts.map(|start| origin + ((start - origin) >> correction));
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
