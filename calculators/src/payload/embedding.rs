//! What the streams of graphs that embed and rank carry.

use std::sync::Arc;

use super::Prompt;

/// How the answer of a request for vectors is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VectorForm {
    /// OpenAI's: a list of vectors, as numbers or as base64 of little-endian 32-bit floats.
    List {
        /// Whether they are base64.
        base64: bool,
    },
    /// Cohere's: lists of vectors by how they are written.
    ByType {
        /// The answer's id.
        id: Arc<str>,
        /// Whether there are numbers.
        float: bool,
        /// Whether there is base64.
        base64: bool,
    },
}

impl VectorForm {
    /// What a request of this form calls the texts, and how many numbers a vector has.
    pub fn field_names(&self) -> (&'static str, &'static str) {
        match self {
            Self::List { .. } => ("input", "dimensions"),
            Self::ByType { .. } => ("texts", "output_dimension"),
        }
    }
}

/// A request of an endpoint for vectors that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingsRequest {
    /// The model as the request names it.
    pub model: Arc<str>,
    /// The texts.
    pub input: Arc<[Prompt]>,
    /// How many numbers each vector should have; none when the request does not say.
    pub dimensions: Option<u32>,
    /// Whether texts that are too long are cut; none for what the node has.
    pub truncate: Option<bool>,
    /// How the answer is written.
    pub form: VectorForm,
    /// Its fields that nobody knows.
    pub ignored: Arc<[String]>,
}

/// The vectors of a request's texts.
#[derive(Clone, Debug, PartialEq)]
pub struct Embeddings {
    /// One for each text, in their order.
    pub vectors: Vec<Vec<f32>>,
    /// Tokens of all texts.
    pub tokens: u32,
}

/// A request of the rerank endpoint that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RerankRequest {
    /// The answer's id.
    pub id: Arc<str>,
    /// The model as the request names it.
    pub model: Arc<str>,
    /// What the documents should answer.
    pub query: Arc<str>,
    /// The texts to rank.
    pub documents: Arc<[String]>,
    /// Most results; none for all.
    pub top_n: Option<u32>,
    /// Whether the results have the documents with them.
    pub return_documents: bool,
    /// Most pieces of a document that is too long for the model; none for all.
    pub max_chunks_per_doc: Option<u32>,
    /// Its fields that nobody knows.
    pub ignored: Arc<[String]>,
}

/// How well each document of a request answers its query.
#[derive(Clone, Debug, PartialEq)]
pub struct Relevance {
    /// From 0 to 1, one for each document, in their order.
    pub scores: Vec<f32>,
    /// Tokens that the model read.
    pub tokens: u32,
}
