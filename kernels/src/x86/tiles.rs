//! Activations by tiles, as the kernels read them: everything of one block together.

use crate::data::activation::{ActivationLayout, BYTES, Factors};
use crate::data::matmul::Matmul;
use crate::data::panel::BLOCK;

/// Brings `count` activations from `first` together, `height` to a tile; a tile's blocks follow
/// each other. `put` puts an activation's integers and factors at its number in a block.
pub(crate) fn gather<B: Copy>(
    matmul: &Matmul<'_>,
    first: usize,
    count: usize,
    height: usize,
    (zero, tiles): (B, &mut Vec<B>),
    put: impl Fn(&mut B, usize, &[u8; BLOCK], Factors),
) -> Tiles<B> {
    let layout = ActivationLayout::new(matmul.cols);
    tiles.resize(count.div_ceil(height) * layout.blocks(), zero);
    for at in 0..count {
        let (tile, token) = (at / height, at % height);
        let blocks = &mut tiles[tile * layout.blocks()..][..layout.blocks()];
        let row = layout.blocks_of(matmul.activations, first + at);
        for (block, (integers, factors)) in blocks.iter_mut().zip(row) {
            put(block, token, integers, factors);
        }
    }
    Tiles {
        first: tiles.as_ptr(),
        step: layout.blocks(),
    }
}

/// Addresses of the blocks of tiles.
#[derive(Clone, Copy)]
pub(crate) struct Tiles<T> {
    pub(crate) first: *const T,
    /// From one tile to the next.
    pub(crate) step: usize,
}

/// Activations where they are, `height` to a tile.
pub(crate) fn in_place(matmul: &Matmul<'_>, first: usize, height: usize) -> Tiles<[u8; BYTES]> {
    let room = ActivationLayout::new(matmul.cols).room();
    Tiles {
        first: matmul.activations.as_chunks().0[first * room..].as_ptr(),
        step: height * room,
    }
}
