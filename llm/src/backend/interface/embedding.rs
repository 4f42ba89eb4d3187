//! What an embedding engine asks of a model.

use std::sync::Arc;

use crate::model::info::BackendInfo;
use crate::model::vocab::Vocab;
use crate::model::{Head, PairForm};
use crate::protocol::Token;
use crate::spec::Pooling;

/// What a backend can compute at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddingCapacity {
    /// Most tokens of a text.
    pub context_length: u32,
    /// Tokens of a batch of several texts.
    pub batch_tokens: u32,
    /// Most texts of a batch.
    pub max_sequences: u32,
    /// Numbers that come out for a text.
    pub width: u32,
    /// How they come about.
    pub pooling: Pooling,
}

/// Computes batches of whole texts. It lives on one engine thread and keeps nothing from batch to
/// batch.
pub trait EmbeddingBackend {
    /// What it can compute at once. Does not change.
    fn capacity(&self) -> EmbeddingCapacity;

    /// What it runs with, for display.
    fn info(&self) -> BackendInfo {
        BackendInfo::default()
    }

    /// The meaning of its numbers, where it ranks. Does not change.
    fn head(&self) -> Head {
        Head::default()
    }

    /// Computes texts, and appends the numbers of each to `out`, in their order.
    ///
    /// # Errors
    /// A message if the computation failed; `out` does not count then.
    fn compute(&mut self, texts: &[&[Token]], out: &mut Vec<f32>) -> Result<(), String>;

    /// Called when there has been no work for a while: gives up what would only be in the way of
    /// others, such as threads.
    fn rest(&mut self) {}
}

/// What an embedding engine runs on.
pub(crate) struct LoadedEmbedding<'a> {
    pub(crate) backend: &'a mut dyn EmbeddingBackend,
    pub(crate) vocab: Arc<dyn Vocab>,
    pub(crate) pairs: PairForm,
}

/// What runs on a loaded backend until its engine is dropped.
pub(crate) type ServeEmbedding<'a> = dyn FnMut(LoadedEmbedding<'_>) + 'a;
