//! Requests to an embedding engine, and their results.

use crate::debug::show_fields;
use crate::protocol::{GenerationError, Tenant, Token};

/// The vectors of a request's texts in order, or the cause of the failure.
pub type EmbeddingOutcome = Result<Vec<Vec<f32>>, EmbeddingError>;

/// The receiver of a request's outcome.
pub type EmbeddingSink = Box<dyn FnOnce(EmbeddingOutcome) + Send>;

/// Texts to compute, and the receiver of their vectors.
pub struct EmbeddingRequest {
    /// The texts, each with at least one token.
    pub texts: Vec<Vec<Token>>,
    /// Tenant of the request, if tenants are distinguished.
    pub tenant: Option<Tenant>,
    /// Called once, on the engine's thread or that of its supervisor, so it must not block.
    pub sink: EmbeddingSink,
}

impl EmbeddingRequest {
    /// Creates a request whose result goes to `sink`.
    pub fn new(
        texts: Vec<Vec<Token>>,
        sink: impl FnOnce(EmbeddingOutcome) + Send + 'static,
    ) -> Self {
        Self {
            texts,
            tenant: None,
            sink: Box::new(sink),
        }
    }
}

show_fields!(EmbeddingRequest { tenant });

/// Failure of a request that had been accepted.
pub type EmbeddingError = GenerationError;

/// Reason why a request is refused before anything is computed for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmbeddingRefusal {
    /// The request has no texts.
    #[error("the request has no texts")]
    NoText,
    /// A text has no tokens.
    #[error("text {index} has no tokens")]
    EmptyText {
        /// Its index in the request.
        index: usize,
    },
    /// A text has more tokens than the model takes.
    #[error("text {index} has {n_tokens} tokens, and the model takes at most {limit}")]
    TextTooLong {
        /// Its index in the request.
        index: usize,
        /// Number of tokens in the text.
        n_tokens: usize,
        /// Maximum number of tokens of a text.
        limit: usize,
    },
    /// A token is not in the vocabulary.
    #[error(
        "token {token} at position {position} of text {index} is not in the vocabulary of {n_vocab} tokens"
    )]
    InvalidToken {
        /// The text's index in the request.
        index: usize,
        /// Token id that is not in the vocabulary.
        token: Token,
        /// Index of the token in the text.
        position: usize,
        /// Size of the vocabulary, in tokens.
        n_vocab: usize,
    },
    /// Too many requests wait already; a later attempt may succeed.
    #[error("{waiting} requests are waiting, and the queue holds {limit}")]
    QueueFull {
        /// Number of requests that have not ended.
        waiting: usize,
        /// Maximum number of waiting requests.
        limit: usize,
    },
    /// The engine's thread has ended.
    #[error("the engine has stopped")]
    Stopped,
    /// The engine failed; it may be replaced soon.
    #[error(transparent)]
    Failed(EmbeddingError),
}
