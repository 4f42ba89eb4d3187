//! Images and sounds: what makes embeddings of them, which a model takes in the place of those of
//! tokens.

use std::num::NonZero;

use super::{Adapters, Decoded, Slot};
use crate::protocol::Token;

/// Seconds of a sound that a projector may have to encode at once. Those that do not cut longer ones
/// take memory by the square of this, and some of them have no more positions: a longer tile, which
/// would end the process, is refused.
pub(crate) const TILE_SECONDS: usize = 30;

/// Reads images, sounds or both for a model: the projector of its file `mmproj`.
pub trait Projector: Send + Sync {
    /// Numbers of the embedding of a position, as many as the model's own have.
    fn width(&self) -> usize;

    /// Whether it reads images.
    fn reads_images(&self) -> bool;

    /// Samples of a second of sound, if it reads sound.
    fn sound_rate(&self) -> Option<NonZero<u32>>;

    /// What stands for an image or a sound in a prompt. Scales and cuts it as the model wants it,
    /// and computes no more than that.
    ///
    /// # Errors
    /// Why the model cannot take it.
    fn prepare(&self, decoded: &Decoded) -> Result<Vec<Piece>, String>;
}

/// A part of what stands for an image or a sound in a prompt.
pub enum Piece {
    /// Tokens, such as those that mark where an image or a sound begins.
    Text(Vec<Token>),
    /// The image or the sound, or a tile of it.
    Tile(Box<dyn PreparedTile>),
}

/// How a tile lies in a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileShape {
    /// Positions that it takes: each has an embedding and a KV cell.
    pub positions: u32,
    /// Its columns, where the model counts an image by lines and columns (M-RoPE). None where its
    /// positions come one after the other, as those of tokens.
    pub columns: Option<NonZero<u32>>,
    /// Whether its positions see those behind them, so that all are computed at once.
    pub looks_ahead: bool,
    /// Whether it is of a sound.
    pub is_sound: bool,
}

#[cfg(feature = "llama")]
impl TileShape {
    /// How far the model has counted behind it.
    pub(crate) fn span(&self) -> u32 {
        let lines = |columns: NonZero<u32>| self.positions.div_ceil(columns.get());
        self.columns
            .map_or(self.positions, |columns| columns.get().max(lines(columns)))
    }
}

/// An image or a sound, or a tile of one, ready to be encoded.
pub trait PreparedTile: Send {
    /// How it lies in a prompt.
    fn shape(&self) -> TileShape;

    /// Computes its embeddings, one position after the other.
    ///
    /// # Errors
    /// Why they could not be computed.
    fn encode(&self) -> Result<Vec<f32>, String>;
}

/// Neighboring positions of a sequence that have embeddings instead of tokens.
#[derive(Clone, Copy, Debug)]
pub struct BatchImage<'a> {
    /// The embeddings, one position after the other.
    pub embeddings: &'a [f32],
    /// How many positions these are: with `looks_ahead`, all of the tile's.
    pub positions: u32,
    /// The place of the first in the sequence; always the number of cells the slot holds so far.
    pub first: u32,
    /// The tile that they are of.
    pub tile: TileShape,
    /// Positions of the tile before these.
    pub offset: u32,
    /// The sequence.
    pub slot: Slot,
    /// As [`BatchToken::adapters`](super::BatchToken::adapters).
    pub adapters: Adapters,
}
