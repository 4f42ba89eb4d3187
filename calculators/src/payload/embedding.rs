//! Payloads of the streams of graphs that embed and rank.

use std::sync::Arc;

use super::Prompt;

/// The form of the answer to a request for vectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VectorForm {
    /// OpenAI's: one list.
    OpenAI {
        /// True for base64 of little-endian 32-bit floats.
        base64: bool,
    },
    /// vLLM's: one list of what a model makes of texts.
    Pooling {
        /// The answer's id.
        id: Arc<str>,
        /// True for base64 of little-endian 32-bit floats.
        base64: bool,
    },
    /// Cohere's: lists of vectors by how they are written.
    Cohere {
        /// The answer's id.
        id: Arc<str>,
        /// True if there are numbers.
        float: bool,
        /// True if there is base64 of little-endian 32-bit floats.
        base64: bool,
    },
    /// Ollama's: one list.
    Ollama {
        /// True for the vector of one text, without a list.
        is_one: bool,
    },
    /// llama-server's: a list of objects, each with a list of vectors.
    LlamaServer {
        /// The field of the request that has the texts.
        field: &'static str,
    },
    /// TEI's: a list of vectors.
    Tei,
    /// TEI's cosines of the first text with each other one.
    TeiSimilarity,
}

impl VectorForm {
    /// The names that a request of this form has for the texts, and for the length of a vector.
    pub fn field_names(&self) -> (&'static str, &'static str) {
        match self {
            Self::OpenAI { .. } | Self::Pooling { .. } | Self::Ollama { is_one: false } => {
                ("input", "dimensions")
            }
            Self::Cohere { .. } => ("texts", "output_dimension"),
            Self::Ollama { is_one: true } => ("prompt", "dimensions"),
            Self::LlamaServer { field } => (field, "dimensions"),
            Self::Tei | Self::TeiSimilarity => ("inputs", "dimensions"),
        }
    }

    /// The place of a text in a request of so many.
    pub fn field(&self, index: usize, count: usize) -> String {
        let (texts, _) = self.field_names();
        match (self, index) {
            (Self::TeiSimilarity, 0) => format!("{texts}.source_sentence"),
            (Self::TeiSimilarity, _) => format!("{texts}.sentences[{}]", index - 1),
            (Self::Cohere { .. }, _) => format!("{texts}[{index}]"),
            _ if count == 1 => texts.to_owned(),
            _ => format!("{texts}[{index}]"),
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
    /// The length of each vector; none when the request does not say.
    pub dimensions: Option<u32>,
    /// True if texts that are too long are cut; none for what the node has.
    pub truncate: Option<bool>,
    /// Number of tokens that they are cut to; none for what the model reads.
    pub most_tokens: Option<u32>,
    /// True if they are cut at their beginning, and not at their end.
    pub cuts_beginning: bool,
    /// True if each vector is made of length 1; none for what the node has.
    pub normalize: Option<bool>,
    /// The form of the answer.
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

/// The server whose answers to a request for scores or classes look alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RerankForm {
    /// Cohere's and Jina's: an object with this id.
    Cohere(Arc<str>),
    /// vLLM's: an object with this id, whose scores are in the order of the texts.
    Score(Arc<str>),
    /// TEI's: a list of scores.
    Tei {
        /// True if they are logarithms of odds, and not probabilities.
        raw_scores: bool,
    },
    /// vLLM's classes of texts: an object with this id.
    Classes {
        /// The answer's id.
        id: Arc<str>,
        /// True if the numbers of classes are logits, and not probabilities.
        logits: bool,
    },
    /// TEI's classes: a list for each text, the likeliest class first.
    Prediction {
        /// True if the numbers of classes are logits, and not probabilities.
        logits: bool,
        /// True for the list of one text, without a list around it.
        is_one: bool,
    },
}

impl RerankForm {
    /// The names that a request of this form has for the query, and for the texts.
    pub fn field_names(&self) -> (&'static str, &'static str) {
        match self {
            Self::Cohere(_) => ("query", "documents"),
            Self::Score(_) => ("text_1", "text_2"),
            Self::Tei { .. } => ("query", "texts"),
            Self::Classes { .. } => ("input", "input"),
            Self::Prediction { .. } => ("inputs", "inputs"),
        }
    }

    /// The place of a text in a request of so many.
    pub fn field(&self, index: usize, count: usize) -> String {
        let (_, texts) = self.field_names();
        match self.asks_for_logits() {
            Some(_) if count == 1 => texts.to_owned(),
            _ => format!("{texts}[{index}]"),
        }
    }

    /// Returns true if it asks for logits of classes, false if it asks for their probabilities, and
    /// `None` if it asks for scores.
    pub fn asks_for_logits(&self) -> Option<bool> {
        match self {
            Self::Cohere(_) | Self::Score(_) | Self::Tei { .. } => None,
            Self::Classes { logits, .. } | Self::Prediction { logits, .. } => Some(*logits),
        }
    }
}

/// A request of the rerank endpoint that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RerankRequest {
    /// The form of the answer.
    pub form: RerankForm,
    /// The model as the request names it.
    pub model: Arc<str>,
    /// The question that the documents should answer, or one for each of them; none where each
    /// document is read by itself.
    pub queries: Arc<[String]>,
    /// The texts to rank.
    pub documents: Arc<[String]>,
    /// Most results; none for all.
    pub top_n: Option<u32>,
    /// True if the results have the documents with them.
    pub return_documents: bool,
    /// Most pieces of a document that is too long for the model; none for all.
    pub max_chunks_per_doc: Option<u32>,
    /// True if documents that are too long are cut and not read in pieces.
    pub truncates: bool,
    /// Number of tokens that a document and the query are cut to; none for what the model reads.
    pub most_tokens: Option<u32>,
    /// Its fields that nobody knows.
    pub ignored: Arc<[String]>,
}

/// Scores of how well each document of a request answers its query, or its classes.
#[derive(Clone, Debug, PartialEq)]
pub struct Relevance {
    /// From 0 to 1, one for each document, in their order; empty where the request asks for classes.
    pub scores: Vec<f32>,
    /// The classes of documents, where the request asks for those.
    pub classes: Option<Classes>,
    /// Tokens that the model read.
    pub tokens: u32,
}

/// The classes of the documents of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Classes {
    /// The names of the classes.
    pub labels: Arc<[String]>,
    /// The logit or probability of each class, in the order of the names, for each document.
    pub numbers: Vec<Vec<f32>>,
}
