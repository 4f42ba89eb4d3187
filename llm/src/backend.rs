//! What the engine asks of a model: decode a batch, read logits, move KV cells around.
//!
//! A backend lives on one engine thread: it is created, used and dropped there. It keeps no notion of requests; the engine
//! names sequences by [`Slot`] and decides which cells they hold.

use std::sync::Arc;

use crate::info::BackendInfo;
use crate::protocol::{LoadError, Token};
use crate::spec::{BackendKind, EngineSpec};
use crate::vocab::Vocab;

#[cfg(feature = "llama")]
mod llama;
pub mod scripted;

/// A place for one sequence in the backend's KV cache, numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
}

/// Whether a batch may hold drafted tokens behind a sequence's last one, whose cells are removed again if they prove wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DraftSupport {
    /// No: cells cannot be removed from a sequence's end alone.
    Never,
    /// Equally many for all sequences: those that have more than others are computed in passes of their own.
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
    /// [`DecodeError::NoCells`] leaves the cache as it was; after [`DecodeError::Failed`] its content is undefined until
    /// [`clear`](Self::clear).
    fn decode(&mut self, batch: &[BatchToken]) -> Result<(), DecodeError>;

    /// The rows of logits of the last batch, one behind the other: one for each token that asked for them, in the batch's order.
    fn logits(&self) -> &[f32];

    /// Frees the slot's cells from this position on.
    fn remove(&mut self, slot: Slot, from: u32);

    /// Gives `to` the first `cells` cells of `from`. Backends with one pool of cells share them, others copy.
    fn copy(&mut self, from: Slot, to: Slot, cells: u32);

    /// Frees all cells of all slots.
    fn clear(&mut self);
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

/// What runs on a loaded backend until its engine is dropped.
pub(crate) type Serve<'a> = dyn FnMut(&mut dyn Backend, Arc<dyn Vocab>) + 'a;

/// Loads the model of a spec on the calling thread and runs `serve` with its backend, which borrows the weights and is dropped
/// before this returns.
pub(crate) fn open(spec: &EngineSpec, serve: &mut Serve<'_>) -> Result<(), LoadError> {
    match spec.backend {
        BackendKind::Scripted => {
            let (mut backend, vocab) = scripted::ScriptedBackend::load(spec)?;
            serve(&mut backend, vocab);
            Ok(())
        }
        #[cfg(feature = "llama")]
        BackendKind::Llama => llama::open(spec, serve),
        #[cfg(not(feature = "llama"))]
        BackendKind::Llama => Err(LoadError::BackendMissing {
            path: spec.model.clone(),
            backend: "llama.cpp",
            feature: "llama",
        }),
    }
}

/// Loads only the vocabulary of a GGUF file: its tokens, special tokens and chat template, without the weights.
///
/// # Errors
/// [`LoadError`] if the file cannot be read or is not a model.
#[cfg(feature = "llama")]
pub fn load_vocab(model: &std::path::Path) -> Result<Arc<dyn Vocab>, LoadError> {
    llama::open_vocab(model)
}
