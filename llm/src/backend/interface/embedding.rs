//! The interface between an embedding engine and its backend.

use std::sync::Arc;

use crate::model::info::BackendInfo;
use crate::model::vocab::Vocab;
use crate::model::{Head, PairForm};
use crate::protocol::Token;
use crate::settings::Pooling;

/// Limits of a batch, and the form of its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddingCapacity {
    /// Maximum number of tokens of one text.
    pub context_length: u32,
    /// Maximum number of tokens of a batch of several texts.
    pub batch_tokens: u32,
    /// Maximum number of texts of a batch.
    pub max_sequences: u32,
    /// Numbers that the backend returns for each text.
    pub width: u32,
    /// Rule that makes one vector from the vectors of all tokens of a text.
    pub pooling: Pooling,
}

/// Computes batches of whole texts. It lives on one engine thread and keeps nothing from batch to
/// batch.
pub trait EmbeddingBackend {
    /// Limits of a batch. They do not change.
    fn capacity(&self) -> EmbeddingCapacity;

    /// Devices, kernels and effective values, for display.
    fn info(&self) -> BackendInfo {
        BackendInfo::default()
    }

    /// Returns the classes of the head of a model that ranks. They do not change.
    fn head(&self) -> Head {
        Head::default()
    }

    /// Computes the texts and appends the numbers of each to `out`, in the order of the texts.
    ///
    /// # Errors
    /// A message if the computation failed; the content of `out` is unspecified then.
    fn compute(&mut self, texts: &[&[Token]], out: &mut Vec<f32>) -> Result<(), String>;

    /// Releases resources that others may need, such as threads. Called after a while without work.
    fn rest(&mut self) {}
}

/// The parts that an embedding engine runs on.
pub(crate) struct LoadedEmbedding<'a> {
    pub(crate) backend: &'a mut dyn EmbeddingBackend,
    pub(crate) vocab: Arc<dyn Vocab>,
    pub(crate) pairs: PairForm,
}

/// A function that runs on a loaded backend until its engine is dropped.
pub(crate) type ServeEmbedding<'a> = dyn FnMut(LoadedEmbedding<'_>) + 'a;
