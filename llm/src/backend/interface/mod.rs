//! What the engine asks of a model: decode a batch, read logits, move KV cells around.
//!
//! A backend lives on one engine thread: it is created, used and dropped there. It keeps no notion
//! of requests; the engine names sequences by [`Slot`] and decides which cells they hold.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

mod adapters;
mod decoded;
mod embedding;
mod images;
mod saved;

pub use adapters::{Adapter, Adapters, MAX_ADAPTERS};
pub use decoded::{Bitmap, Decoded, Sound};
pub use embedding::{EmbeddingBackend, EmbeddingCapacity};
pub(crate) use embedding::{LoadedEmbedding, ServeEmbedding};
pub(crate) use images::TILE_SECONDS;
pub use images::{BatchImage, Piece, PreparedTile, Projector, TileShape};
pub use saved::{Checkpoint, SavedCells, SavedPart};

use crate::model::info::BackendInfo;
use crate::model::vocab::Vocab;
use crate::protocol::Token;

/// A place for one sequence in the backend's KV cache, numbered from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

/// What a backend can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// KV cells of all sequences together; a token takes one cell.
    pub total_cells: u32,
    /// KV cells one sequence can use.
    pub cells_per_sequence: u32,
    /// Sequences at the same time.
    pub max_sequences: u32,
    /// Tokens of one batch.
    pub max_batch_tokens: u32,
    /// Numbers of an embedding that a position can have in the place of a token; none for a backend
    /// that takes tokens alone.
    pub embedding_width: Option<usize>,
    /// How slots hold cells.
    pub layout: KvLayout,
    /// How a sequence can go on from the beginning of another one.
    pub reuse: Reuse,
    /// Bytes of host memory for saved cells, and as many for checkpoints, unless the spec says
    /// otherwise.
    pub host_cache_bytes: u64,
}

/// How a sequence can go on from the beginning of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// It cannot.
    Never,
    /// With the cells of that beginning, wherever it ends.
    Cells,
    /// With copies of its cells and a checkpoint that was made at its end. Models with recurrent
    /// layers have one state for all tokens so far, and sliding windows drop the cells of tokens
    /// that are out of sight.
    Checkpoints,
}

/// How slots hold cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvLayout {
    /// The unified KV cache: all slots take from the same cells, and one can belong to several of
    /// them.
    Unified,
    /// A KV cache per sequence: each slot has cells of its own.
    PerSequence,
}

/// One token of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchToken {
    /// The token.
    pub token: Token,
    /// Its place in the sequence, from 0; always the number of cells the slot holds so far.
    pub position: u32,
    /// The sequence.
    pub slot: Slot,
    /// Whether the logits after this token will be read.
    pub logits: bool,
    /// Whether the hidden state after this token will be read, from which MTP layers and EAGLE3 models draft.
    pub hidden: bool,
    /// What the model's weights are changed by; the same for all tokens of a slot.
    pub adapters: Adapters,
}

/// Whether a batch may hold drafted tokens behind a sequence's last one, whose cells are removed
/// again if they prove wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DraftSupport {
    /// No: cells cannot be removed from a sequence's end alone.
    Never,
    /// Equally many for all sequences, as with `SameLength`, and at most so many: sequences can go
    /// back by no more, and only once after a batch.
    UpTo(u32),
    /// Equally many for all sequences: those that have more than others are computed in sub-batches
    /// of their own.
    SameLength,
    /// Any number for each.
    #[default]
    AnyLength,
}

/// Computes batches of tokens against a KV cache.
pub trait Backend {
    /// What the backend can hold. Does not change.
    fn capacity(&self) -> Capacity;

    /// What the backend runs with, for display.
    fn info(&self) -> BackendInfo {
        BackendInfo::default()
    }

    /// The vocabulary's size, which is also the length of a row of logits.
    fn n_vocab(&self) -> usize;

    /// Whether batches may hold drafts. Does not change.
    fn draft_support(&self) -> DraftSupport {
        DraftSupport::default()
    }

    /// Computes the batch and stores one KV cell per token.
    ///
    /// # Errors
    /// [`DecodeError::NoCells`] leaves the cache as it was; after [`DecodeError::Failed`] its
    /// content is undefined until [`clear`](Self::clear).
    fn decode(&mut self, batch: &[BatchToken]) -> Result<(), DecodeError>;

    /// Computes positions of images, which have embeddings instead of tokens, and stores one KV cell
    /// per position. Their logits are not asked for. Together with the batch that is computed next,
    /// they are no more than [`Capacity::max_batch_tokens`].
    ///
    /// # Errors
    /// Those of [`decode`](Self::decode).
    fn decode_images(&mut self, images: &[BatchImage<'_>]) -> Result<(), DecodeError> {
        let images = images.len();
        Err(DecodeError::Failed(format!(
            "the backend cannot compute {images} images"
        )))
    }

    /// The time that batches take, and that requests have waited, by this clock. Tests have clocks
    /// of their own.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// The rows of logits of the last batch, one behind the other: one for each token that asked
    /// for them, in the batch's order.
    fn logits(&self) -> &[f32];

    /// The hidden states of the last batch, one behind the other: one for each token that asked for
    /// it, in the batch's order.
    fn hidden(&self) -> &[f32] {
        &[]
    }

    /// Elements of a hidden state of the main model, from which this backend drafts: it has the MTP
    /// layers of that, or is an EAGLE3 model. 0 for every other backend.
    fn hidden_width(&self) -> usize {
        0
    }

    /// Makes hidden states of the main model into those that this backend drafts from, one for each.
    /// To MTP layers they are the same.
    ///
    /// # Errors
    /// [`DecodeError`] if they could not be computed.
    fn encode_hidden<'a>(&'a mut self, states: &'a [f32]) -> Result<&'a [f32], DecodeError> {
        Ok(states)
    }

    /// As [`decode`](Self::decode), with the hidden state before each token.
    ///
    /// # Errors
    /// Those of [`decode`](Self::decode).
    fn decode_with_hidden(
        &mut self,
        batch: &[BatchToken],
        hidden: &[f32],
    ) -> Result<(), DecodeError> {
        let (tokens, numbers) = (batch.len(), hidden.len());
        Err(DecodeError::Failed(format!(
            "the backend cannot compute {tokens} tokens with {numbers} numbers of hidden states"
        )))
    }

    /// Calls `work` on each thread that computes batches, the calling one among them, and waits for
    /// all of them. They compute nothing meanwhile, and mostly have not gone to sleep since the
    /// last batch.
    fn on_threads(&self, work: &(dyn Fn() + Sync)) {
        work();
    }

    /// Frees the slot's cells from this position on, which is not inside of a tile.
    fn remove(&mut self, slot: Slot, from: u32);

    /// Frees the slot's cells before this position. What is left can be saved or removed, nothing
    /// else.
    ///
    /// This and the next five are called only if [`Capacity::reuse`] says so.
    fn remove_before(&mut self, slot: Slot, position: u32);

    /// Makes the first `cells` cells of `from` cells of `to`, too, which has none at these
    /// positions; they end with no part of a tile. Only for the layout [`KvLayout::Unified`] and [`Reuse::Cells`].
    fn share(&mut self, from: Slot, to: Slot, cells: u32);

    /// Copies cells of a slot to host memory, cut into pieces: the positions of each, in order, one
    /// behind the other.
    ///
    /// # Errors
    /// [`SaveError`] if the backend cannot, now or ever.
    fn save(&mut self, slot: Slot, pieces: &[Range<u32>]) -> Result<Vec<SavedCells>, SaveError> {
        Err(SaveError(format!("cannot save {pieces:?} of {slot:?}")))
    }

    /// Copies to host memory what a slot's cells do not say of its state. Only for
    /// [`Reuse::Checkpoints`].
    ///
    /// # Errors
    /// [`SaveError`] if the backend cannot, now or ever.
    fn checkpoint(&mut self, slot: Slot) -> Result<Checkpoint, SaveError> {
        Err(SaveError(format!("cannot make a checkpoint of {slot:?}")))
    }

    /// Gives an empty slot copies of saved cells, without gaps, the first at position `from`, and
    /// with [`Reuse::Checkpoints`] the checkpoint that was made behind the last.
    ///
    /// # Errors
    /// [`SaveError`] if the backend cannot take them; the slot is empty then.
    fn restore(
        &mut self,
        slot: Slot,
        from: u32,
        parts: &[SavedPart<'_>],
        checkpoint: Option<&Checkpoint>,
    ) -> Result<(), SaveError> {
        let _ = checkpoint;
        let parts = parts.len();
        Err(SaveError(format!(
            "cannot restore {parts} parts from {from} on to {slot:?}"
        )))
    }

    /// Moves all cells of a slot to an empty one. Only for the layout [`KvLayout::PerSequence`].
    ///
    /// # Errors
    /// [`SaveError`] if the backend cannot; the cells are where they were then.
    fn relocate(&mut self, from: Slot, to: Slot) -> Result<(), SaveError> {
        Err(SaveError(format!("cannot move {from:?} to {to:?}")))
    }

    /// Frees all cells of all slots.
    fn clear(&mut self);

    /// Does a little of what can wait until there is nothing to compute, a few milliseconds at
    /// most; says whether there is more. Called again and again until there is not, or work comes.
    fn tidy(&mut self) -> bool {
        false
    }

    /// Called when there has been no work for a while: gives up what would only be in the way of
    /// others, such as threads. The next batch may take a little longer.
    fn rest(&mut self) {}
}

/// Why a batch was not computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// There were too few free cells.
    #[error("the KV cache has too few free cells for the batch")]
    NoCells,
    /// The computation failed.
    #[error("{0}")]
    Failed(String),
}

/// Why cells were not saved, restored or moved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SaveError(pub String);

/// What an engine runs on.
pub(crate) struct Loaded<'a> {
    pub(crate) backend: &'a mut dyn Backend,
    /// What drafts: a smaller model with the same vocabulary, or the model's own MTP layers.
    pub(crate) draft: Option<&'a mut dyn Backend>,
    pub(crate) vocab: Arc<dyn Vocab>,
    /// What reads images for the model.
    pub(crate) projector: Option<Arc<dyn Projector>>,
}

/// What runs on loaded backends until their engine is dropped.
pub(crate) type Serve<'a> = dyn FnMut(Loaded<'_>) + 'a;
