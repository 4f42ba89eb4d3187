//! Embeddings, reranking and classes: models that read a text and output a vector, a score or the
//! probabilities of classes.
//!
//! ```text
//! HttpRequestPayload ─► EmbeddingsRequest ─► Embeddings ─► HttpResponse
//! HttpRequestPayload ─► RerankRequest ─► Relevance ─► HttpResponse
//! ```

mod engine;
mod model;
mod options;
mod rank;
mod vector;

pub use model::EmbeddingModel;
pub use options::{
    DocumentOptions, EmbedOptions, EmbeddingEngineOptions, PoolingOption, RankOptions,
    VectorOptions,
};
pub(crate) use rank::claim_classes;
pub use rank::{Rank, RankPorts};
pub use vector::{Embed, EmbedPorts};
