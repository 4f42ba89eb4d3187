//! What goes into an embedding engine and comes out of it.

use crate::protocol::{GenerationError, Tenant, Token};

/// The vectors of a request's texts in order, or why there are none.
pub type EmbeddingOutcome = Result<Vec<Vec<f32>>, EmbeddingError>;

/// The receiver of a request's outcome.
pub type EmbeddingSink = Box<dyn FnOnce(EmbeddingOutcome) + Send>;

/// Texts to compute, and the receiver of their vectors.
pub struct EmbeddingRequest {
    /// The texts, each with at least one token.
    pub texts: Vec<Vec<Token>>,
    /// Tenant of the request, where tenants are told apart.
    pub tenant: Option<Tenant>,
    /// Called once, on the engine's thread or that of its supervisor, so it must not block.
    pub sink: EmbeddingSink,
}

impl EmbeddingRequest {
    /// A request whose result goes to `sink`.
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

impl std::fmt::Debug for EmbeddingRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddingRequest")
            .field("texts", &self.texts.len())
            .finish_non_exhaustive()
    }
}

/// Why a request that was taken has no result.
pub type EmbeddingError = GenerationError;

/// Why a request was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmbeddingRefusal {
    /// There is no text.
    #[error("there is no text")]
    NoText,
    /// A text has no token.
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
        /// Its tokens.
        n_tokens: usize,
        /// Most tokens of a text.
        limit: usize,
    },
    /// A token is not in the vocabulary.
    #[error(
        "token {token} at position {position} of text {index} is not in the vocabulary of {n_vocab} tokens"
    )]
    InvalidToken {
        /// The text's index in the request.
        index: usize,
        /// The token.
        token: Token,
        /// Its index in the text.
        position: usize,
        /// Tokens in the vocabulary.
        n_vocab: usize,
    },
    /// Too many requests wait already; trying again later can help.
    #[error("{waiting} requests are waiting, and the queue holds {limit}")]
    QueueFull {
        /// Requests that wait.
        waiting: usize,
        /// The queue's bound.
        limit: usize,
    },
    /// The engine's thread has ended.
    #[error("the engine has stopped")]
    Stopped,
    /// The engine was given up; another one may be there soon.
    #[error(transparent)]
    Failed(EmbeddingError),
}
