//! The embedding engine: models that read a text and answer with numbers, a vector for its meaning or a score for its relevance.
//!
//! A sibling of the generating [`Engine`](crate::Engine), with the same devices, threads and limits. One thread owns the model. Each
//! step computes a batch of whole texts of many requests under a token budget, each request giving one text in turn, so that a long
//! list does not hold up a single text. Nothing is kept from step to step.

mod backend;
mod batch;
mod engine;
mod info;
mod pair;
mod request;
mod spec;
mod step;

pub use backend::{EmbeddingBackend, EmbeddingCapacity};
pub use engine::{EmbeddingEngine, EmbeddingHandle, EmbeddingStatus};
pub use info::{EmbeddingInfo, EmbeddingMeasurements};
pub use request::{
    EmbeddingError, EmbeddingOutcome, EmbeddingRefusal, EmbeddingRequest, EmbeddingSink,
};
pub use spec::{EmbeddingSpec, EmbeddingTask, Pooling};

#[cfg(feature = "llama")]
pub(crate) use backend::LoadedEmbedding;
pub(crate) use backend::ServeEmbedding;
pub use pair::PairForm;
