//! Images: what makes embeddings of them, which a model takes in the place of those of tokens.

use super::{Adapter, Slot};
use crate::protocol::Token;
use crate::vision::Bitmap;

/// Reads images for a model: the projector of its file `mmproj`.
pub trait Projector: Send + Sync {
    /// Numbers of the embedding of a position, as many as the model's own have.
    fn width(&self) -> usize;

    /// What stands for an image in a prompt. Scales and cuts it as the model wants it, and computes
    /// no more than that.
    ///
    /// # Errors
    /// Why the model cannot take the image.
    fn prepare(&self, bitmap: &Bitmap) -> Result<Vec<Piece>, String>;
}

/// A part of what stands for an image in a prompt.
pub enum Piece {
    /// Tokens, such as those that mark where an image begins.
    Text(Vec<Token>),
    /// The image, or a tile of it.
    Tile(Box<dyn PreparedTile>),
}

/// An image or a tile of one, ready to be encoded.
pub trait PreparedTile: Send {
    /// Positions that it takes in a prompt.
    fn positions(&self) -> u32;

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
    /// How many positions these are.
    pub positions: u32,
    /// The place of the first in the sequence; always the number of cells the slot holds so far.
    pub first: u32,
    /// The sequence.
    pub slot: Slot,
    /// As [`BatchToken::adapter`](super::BatchToken::adapter).
    pub adapter: Option<Adapter>,
}
