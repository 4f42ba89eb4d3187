//! Images and sounds: a projector makes embeddings of them, which a model takes in place of the
//! embeddings of tokens.

use std::num::NonZero;

use super::{Adapters, DecodedMedium, Slot};
use crate::protocol::Token;

/// Longest sound that a projector may have to encode at once, in seconds. For projectors that do
/// not cut longer sounds, memory grows with the square of this. Some projectors have no more
/// positions: a longer tile would end the process, so it is refused.
pub(crate) const TILE_SECONDS: usize = 30;

/// Encodes images, sounds or both for a model, from the file `mmproj`.
pub trait Projector: Send + Sync {
    /// Numbers of one position's embedding, equal to the model's own embedding width.
    fn width(&self) -> usize;

    /// Returns true if images can be [prepared](Self::prepare).
    fn reads_images(&self) -> bool;

    /// Samples per second of sound; `None` if the projector does not take sound.
    fn sound_rate(&self) -> Option<NonZero<u32>>;

    /// Converts an image or a sound into the pieces that stand for it in a prompt. Scales and cuts
    /// it as the model needs, but encodes nothing yet.
    ///
    /// # Errors
    /// The reason why the model cannot take it.
    fn prepare(&self, decoded: &DecodedMedium) -> Result<Vec<Piece>, String>;
}

/// A part of what stands for an image or a sound in a prompt.
pub enum Piece {
    /// Tokens, such as those that mark where an image or a sound begins.
    Text(Vec<Token>),
    /// The image or the sound, or a tile of it.
    Tile(Box<dyn PreparedTile>),
}

/// The positions of a tile in a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TileShape {
    /// Positions that the tile takes: each has an embedding and a KV cell.
    pub positions: u32,
    /// Columns of the tile, if the model counts an image by lines and columns (M-RoPE). `None` if
    /// its positions follow one another, as those of tokens do.
    pub columns: Option<NonZero<u32>>,
    /// True if its positions attend to later ones, so that all must be computed at once.
    pub looks_ahead: bool,
    /// True if the tile is part of a sound.
    pub is_sound: bool,
}

#[cfg(feature = "llama")]
impl TileShape {
    /// Positions by which the model's own count advances over the tile.
    pub(crate) fn span(&self) -> u32 {
        let lines = |columns: NonZero<u32>| self.positions.div_ceil(columns.get());
        self.columns
            .map_or(self.positions, |columns| columns.get().max(lines(columns)))
    }
}

/// An image or a sound, or a tile of one, ready to be encoded.
pub trait PreparedTile: Send {
    /// The positions that the tile takes in a prompt.
    fn shape(&self) -> TileShape;

    /// Computes the embeddings of all positions, one after the other.
    ///
    /// # Errors
    /// The reason why they could not be computed.
    fn encode(&self) -> Result<Vec<f32>, String>;
}

/// Neighboring positions of a sequence that have embeddings instead of tokens.
#[derive(Clone, Copy, Debug)]
pub struct BatchImage<'a> {
    /// The embeddings, one position after the other.
    pub embeddings: &'a [f32],
    /// Number of positions here: with `looks_ahead`, all of the tile's.
    pub positions: u32,
    /// Position of the first one in the sequence; always the number of cells the slot holds so far.
    pub first: u32,
    /// The tile that they are part of.
    pub tile: TileShape,
    /// Number of the tile's positions before these.
    pub offset: u32,
    /// Slot of the sequence that they belong to.
    pub slot: Slot,
    /// True if the logits after the last of these positions are read.
    pub logits: bool,
    /// LoRA adapters, as in [`BatchToken::adapters`](super::BatchToken::adapters).
    pub adapters: Adapters,
}
