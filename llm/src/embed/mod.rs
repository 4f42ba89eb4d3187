//! The embedding engine: models that read a text and output a vector for its meaning or a score for
//! its relevance.
//!
//! A sibling of the generating [`LlmEngine`](crate::LlmEngine), with the same devices, threads and
//! limits. One thread owns the model. Each step computes a batch of whole texts of many requests
//! under a token budget, each request giving one text in turn, so that a long list does not hold up
//! a single text, and requests of different tenants come first in turn. Nothing is kept from step to step.

mod batch;
mod engine;
mod info;
mod request;
mod step;

pub use crate::backend::{EmbeddingBackend, EmbeddingCapacity};
pub use crate::model::{Head, PairForm};
pub use crate::settings::{EmbeddingSpec, EmbeddingTask, Pooling};
pub use engine::{EmbeddingEngine, EmbeddingHandle, EmbeddingStatus};
pub use info::{EmbeddingInfo, EmbeddingMeasurements};
pub use request::{
    EmbeddingError, EmbeddingOutcome, EmbeddingRefusal, EmbeddingRequest, EmbeddingSink,
};
