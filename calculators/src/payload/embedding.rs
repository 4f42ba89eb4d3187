//! Payloads of graphs that embed and rank.

use std::sync::Arc;

use super::Prompt;

/// The form of an answer with vectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VectorForm {
    /// OpenAI's form: a list of objects.
    OpenAI {
        /// True for base64 of little-endian 32-bit floats.
        base64: bool,
    },
    /// vLLM's form: a list of the outputs that a model has for texts.
    Pooling {
        /// Id of the answer, which contains that of the request.
        id: Arc<str>,
        /// True for base64 of little-endian 32-bit floats.
        base64: bool,
    },
    /// Cohere's form: a list of vectors for each encoding.
    Cohere {
        /// Id of the answer, which contains that of the request.
        id: Arc<str>,
        /// True if the answer has the vectors as numbers.
        float: bool,
        /// True if the answer has the vectors as base64 of little-endian 32-bit floats.
        base64: bool,
    },
    /// Ollama's form: a list of vectors.
    Ollama {
        /// True for the vector of one text, without a list.
        is_one: bool,
    },
    /// llama-server's form: a list of objects, each with a list of vectors.
    LlamaServer {
        /// The field of the request that has the texts.
        field: &'static str,
    },
    /// TEI's form: a list of vectors.
    #[default]
    Tei,
    /// TEI's form of similarities: the cosine of the first text with each other one.
    TeiSimilarity,
}

impl VectorForm {
    /// Returns the fields of a request of this form that have the texts, and the length of a
    /// vector.
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

    /// Returns the path of a text in a request with `count` texts, for errors.
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

/// A checked request for vectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EmbeddingsRequest {
    /// The model as the request names it.
    pub model: Arc<str>,
    /// Texts to embed, in order.
    pub input: Arc<[Prompt]>,
    /// Length of each vector; `None` for that of the model.
    pub dimensions: Option<u32>,
    /// True if texts that are too long are cut; `None` for the node's option.
    pub truncate: Option<bool>,
    /// Number of tokens to which texts are cut; `None` for the maximum of the model.
    pub most_tokens: Option<u32>,
    /// True if texts are cut at their beginning, false at their end.
    pub cuts_beginning: bool,
    /// True if each vector is scaled to length 1; `None` for the node's option.
    pub normalize: Option<bool>,
    /// The form of the answer.
    pub form: VectorForm,
    /// Unknown fields of the request.
    pub ignored: Arc<[String]>,
}

/// The vectors of a request's texts.
#[derive(Clone, Debug, PartialEq)]
pub struct Embeddings {
    /// One vector for each text, in their order.
    pub vectors: Vec<Vec<f32>>,
    /// Number of tokens of all texts.
    pub tokens: u32,
}

/// The form of an answer with scores or classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RerankForm {
    /// Cohere's and Jina's form: an object with this id.
    Cohere(Arc<str>),
    /// vLLM's form: an object with this id, whose scores are in the order of the texts.
    Score(Arc<str>),
    /// TEI's form: a list of scores.
    Tei {
        /// True for log odds, false for probabilities.
        raw_scores: bool,
    },
    /// vLLM's form of classes: an object.
    Classes {
        /// Id of the answer, which contains that of the request.
        id: Arc<str>,
        /// True for logits of classes, false for probabilities.
        logits: bool,
    },
    /// TEI's form of classes: a list for each text, the most likely class first.
    Prediction {
        /// True for logits of classes, false for probabilities.
        logits: bool,
        /// True if the answer is the list of one text, without a list around it.
        is_one: bool,
    },
}

impl Default for RerankForm {
    fn default() -> Self {
        Self::Tei { raw_scores: false }
    }
}

impl RerankForm {
    /// Returns the fields of a request of this form that have the query, and the texts.
    pub fn field_names(&self) -> (&'static str, &'static str) {
        match self {
            Self::Cohere(_) => ("query", "documents"),
            Self::Score(_) => ("text_1", "text_2"),
            Self::Tei { .. } => ("query", "texts"),
            Self::Classes { .. } => ("input", "input"),
            Self::Prediction { .. } => ("inputs", "inputs"),
        }
    }

    /// Returns the field of a text in a request with `count` texts.
    pub fn field(&self, index: usize, count: usize) -> String {
        let (_, texts) = self.field_names();
        match self.asks_for_logits() {
            Some(_) if count == 1 => texts.to_owned(),
            _ => format!("{texts}[{index}]"),
        }
    }

    /// Returns true for logits of classes, false for probabilities of classes, and `None` for scores.
    pub fn asks_for_logits(&self) -> Option<bool> {
        match self {
            Self::Cohere(_) | Self::Score(_) | Self::Tei { .. } => None,
            Self::Classes { logits, .. } | Self::Prediction { logits, .. } => Some(*logits),
        }
    }
}

/// A checked request for scores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RerankRequest {
    /// The form of the answer.
    pub form: RerankForm,
    /// The model as the request names it.
    pub model: Arc<str>,
    /// The question that the documents should answer, or one question for each of them. Empty if
    /// each document is read by itself.
    pub queries: Arc<[String]>,
    /// Texts to rank, in order.
    pub documents: Arc<[String]>,
    /// Maximum number of results; `None` for all.
    pub top_n: Option<u32>,
    /// True if the results include the documents.
    pub return_documents: bool,
    /// Maximum number of pieces of a document that is too long for the model; `None` for no limit.
    pub max_chunks_per_doc: Option<u32>,
    /// True if documents that are too long are cut, false if they are read in pieces.
    pub truncates: bool,
    /// Number of tokens to which a document and the query are cut; `None` for the maximum of the
    /// model.
    pub most_tokens: Option<u32>,
    /// Unknown fields of the request.
    pub ignored: Arc<[String]>,
}

/// Scores of the documents of a request: how well each answers its query. Or the classes of texts.
#[derive(Clone, Debug, PartialEq)]
pub struct Relevance {
    /// One score from 0 to 1 for each document, in their order. Empty if the request asks for
    /// classes.
    pub scores: Vec<f32>,
    /// The classes of the documents; `None` if the request asks for scores.
    pub classes: Option<Classes>,
    /// Tokens that the model read.
    pub tokens: u32,
}

/// The classes of the documents of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Classes {
    /// Names of the classes, in the order of the model's outputs.
    pub labels: Arc<[String]>,
    /// The logits or probabilities of the classes for each document, in the order of the names.
    pub numbers: Vec<Vec<f32>>,
}
