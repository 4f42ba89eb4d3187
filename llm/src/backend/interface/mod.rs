//! The interface between the engine and a model: decode a batch, read logits, move KV cells.
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
pub use decoded::{Bitmap, DecodedMedium, Sound};
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

/// Limits of a backend, which the engine keeps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// KV cells of all sequences together; a token takes one cell.
    pub total_cells: u32,
    /// KV cells that one sequence can use.
    pub cells_per_sequence: u32,
    /// Sequences at the same time.
    pub max_sequences: u32,
    /// Maximum number of tokens and positions of images in one batch.
    pub max_batch_tokens: u32,
    /// Numbers of an embedding that a position can have in place of a token; `None` for a backend
    /// that takes tokens only.
    pub embedding_width: Option<usize>,
    /// Numbers of a vector that a request can give in place of a token; `None` if the model does not
    /// compute such a vector as it computes the token's own embedding.
    pub vector_width: Option<usize>,
    /// Assignment of cells to slots.
    pub layout: KvLayout,
    /// Means by which a sequence continues from the beginning of another one.
    pub reuse: Reuse,
    /// Default budget for saved cells, in bytes of host memory. Checkpoints have a budget of the
    /// same size.
    pub host_cache_bytes: u64,
}

/// Means by which a sequence continues from the beginning of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// No reuse: every sequence computes its whole prompt.
    Never,
    /// The cells of that beginning suffice, wherever it ends.
    Cells,
    /// Copies of its cells and a checkpoint made at its end are needed. Models with recurrent
    /// layers have one state for all tokens so far, and sliding windows drop the cells of tokens
    /// that are out of sight.
    Checkpoints,
}

/// Assignment of cells to slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvLayout {
    /// The unified KV cache: all slots take cells from the same pool, and a cell can belong to
    /// several slots.
    Unified,
    /// A KV cache per sequence: each slot has its own cells.
    PerSequence,
}

/// One token of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchToken {
    /// Token to compute; never a placeholder of an image.
    pub token: Token,
    /// Position in the sequence, from 0; always the number of cells the slot holds so far.
    pub position: u32,
    /// Slot of the sequence that it belongs to.
    pub slot: Slot,
    /// True if the logits after this token will be read.
    pub logits: bool,
    /// True if the hidden state after this token will be read. MTP layers and EAGLE3 models draft
    /// from it.
    pub hidden: bool,
    /// LoRA adapters applied to the weights; the same for all tokens of a slot.
    pub adapters: Adapters,
}

/// Drafted tokens that a batch may hold behind a sequence's last token. Their cells are removed
/// again if they prove wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DraftSupport {
    /// No drafts: cells cannot be removed from the end of a sequence.
    Never,
    /// The same number for all sequences, as with `SameLength`, and at most this many: sequences
    /// can go back by no more, and only once after a batch.
    UpTo(u32),
    /// The same number for all sequences. Sequences with more drafts than others are computed in
    /// sub-batches of their own.
    SameLength,
    /// Any number, independently for each sequence.
    #[default]
    AnyLength,
}

/// Computes batches of tokens against a KV cache.
pub trait Backend {
    /// Limits of the backend. They do not change.
    fn capacity(&self) -> Capacity;

    /// Devices, kernels and effective values, for display.
    fn info(&self) -> BackendInfo {
        BackendInfo::default()
    }

    /// The vocabulary's size, which is also the length of a row of logits.
    fn n_vocab(&self) -> usize;

    /// Drafts that batches may hold. Does not change.
    fn draft_support(&self) -> DraftSupport {
        DraftSupport::default()
    }

    /// Computes the batch and stores one KV cell per token.
    ///
    /// # Errors
    /// [`DecodeError::NoCells`] leaves the cache as it was; after [`DecodeError::Failed`] its
    /// content is undefined until [`clear`](Self::clear).
    fn decode(&mut self, batch: &[BatchToken]) -> Result<(), DecodeError>;

    /// Computes positions of images, which have embeddings instead of tokens, and stores one KV
    /// cell per position. Appends a row of logits to `rows` for each image that asks for it, in
    /// their order. Together with the next batch, they are at most [`Capacity::max_batch_tokens`].
    ///
    /// # Errors
    /// Those of [`decode`](Self::decode).
    fn decode_images(
        &mut self,
        images: &[BatchImage<'_>],
        rows: &mut Vec<f32>,
    ) -> Result<(), DecodeError> {
        let _ = rows;
        let images = images.len();
        Err(DecodeError::Failed(format!(
            "the backend cannot compute {images} images"
        )))
    }

    /// The clock that measures batches and the waiting time of requests. Tests use clocks of their
    /// own.
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

    /// Elements of a hidden state of the main model, from which this backend drafts with the MTP
    /// layers of that model or as an EAGLE3 model. 0 for every other backend.
    fn hidden_width(&self) -> usize {
        0
    }

    /// Converts hidden states of the main model into those that this backend drafts from, one for
    /// each. For MTP layers they are the same.
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

    /// Calls `work` on each thread that computes batches, including the calling one, and waits for
    /// all of them. They compute nothing meanwhile. Most of them are still awake from the last
    /// batch.
    fn on_threads(&self, work: &(dyn Fn() + Sync)) {
        work();
    }

    /// Frees the slot's cells from this position on. The position is not inside a tile with columns.
    fn remove(&mut self, slot: Slot, from: u32);

    /// Frees the slot's cells before this position. The remaining cells can only be saved or
    /// removed.
    ///
    /// This and the next five methods are called only if [`Capacity::reuse`] allows it.
    fn remove_before(&mut self, slot: Slot, position: u32);

    /// Adds the first `cells` cells of `from` to `to`, which has none at these positions. They do
    /// not end inside a tile. Only for the layout [`KvLayout::Unified`] and [`Reuse::Cells`].
    fn share(&mut self, from: Slot, to: Slot, cells: u32);

    /// Copies cells of a slot to host memory. `pieces` are the positions of each copy, in order and
    /// without gaps.
    ///
    /// # Errors
    /// [`SaveError`] if the backend cannot, now or ever.
    fn save(&mut self, slot: Slot, pieces: &[Range<u32>]) -> Result<Vec<SavedCells>, SaveError> {
        Err(SaveError(format!("cannot save {pieces:?} of {slot:?}")))
    }

    /// Copies the part of a slot's state that is not in its cells to host memory. Only for
    /// [`Reuse::Checkpoints`].
    ///
    /// # Errors
    /// [`SaveError`] if the backend cannot, now or ever.
    fn checkpoint(&mut self, slot: Slot) -> Result<Checkpoint, SaveError> {
        Err(SaveError(format!("cannot make a checkpoint of {slot:?}")))
    }

    /// Fills an empty slot with copies of saved cells, without gaps, the first at position `from`.
    /// With [`Reuse::Checkpoints`], also restores the checkpoint that was made behind the last
    /// cell.
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
    /// [`SaveError`] if the backend cannot; the cells stay in `from` then.
    fn relocate(&mut self, from: Slot, to: Slot) -> Result<(), SaveError> {
        Err(SaveError(format!("cannot move {from:?} to {to:?}")))
    }

    /// Frees all cells of all slots.
    fn clear(&mut self);

    /// Does a part of the deferred work, a few milliseconds at most, and returns true if more is
    /// left. Called repeatedly until none is left or work arrives.
    fn tidy(&mut self) -> bool {
        false
    }

    /// Releases resources that others may need, such as threads. Called after a while without work.
    /// The next batch may take a little longer.
    fn rest(&mut self) {}
}

/// Causes of a batch that was not computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The batch needs more cells than are free.
    #[error("the KV cache has too few free cells for the batch")]
    NoCells,
    /// The computation failed, with the backend's message.
    #[error("{0}")]
    Failed(String),
}

/// Message about cells that were not saved, restored or moved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SaveError(pub String);

/// The loaded parts that an engine runs on.
pub(crate) struct LoadedBackends<'a> {
    pub(crate) backend: &'a mut dyn Backend,
    /// The drafter: a smaller model with the same vocabulary, or the model's own MTP layers.
    pub(crate) draft: Option<&'a mut dyn Backend>,
    pub(crate) vocab: Arc<dyn Vocab>,
    /// The encoder of images and sounds.
    pub(crate) projector: Option<Arc<dyn Projector>>,
}

/// A function that runs on loaded backends until their engine is dropped.
pub(crate) type Serve<'a> = dyn FnMut(LoadedBackends<'_>) + 'a;
