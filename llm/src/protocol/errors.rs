//! Errors of models that are loaded, requests that are submitted, and generations that run.

use std::io;
use std::path::PathBuf;

use super::Token;

/// Failure of a sequence that the engine had accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct GenerationError {
    /// Cause of the failure, which decides whether a new attempt can succeed.
    pub kind: ErrorKind,
    /// Description of the failure for the client.
    pub message: String,
}

impl GenerationError {
    /// Creates the error of a failure with this cause.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, message }
    }
}

/// The causes of a [`GenerationError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A step failed or panicked.
    Internal,
    /// The KV cache could not hold the sequence, or no slot came free in time.
    ResourceExhausted,
    /// The engine is shutting down or lost its backend.
    Unavailable,
    /// The text could not be held to its constraint, which is too complex.
    Constraint,
    /// The adapters at the scales of the request leave no usable numbers.
    Adapters,
}

/// Lists the known names, for an error about an unknown one.
fn listed(known: &[String]) -> String {
    if known.is_empty() {
        return String::new();
    }
    format!("; there are `{}`", known.join("`, `"))
}

/// Reason for the refusal of a request.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SubmitError {
    /// The prompt has no tokens.
    #[error("the prompt has no tokens")]
    EmptyPrompt,
    /// The model has no adapter with that name.
    #[error("the model has no adapter `{name}`{}", listed(known))]
    UnknownAdapter {
        /// The name in the request.
        name: String,
        /// Names of the model's adapters.
        known: Vec<String>,
    },
    /// The prompt leaves no room for even one generated token.
    #[error(
        "This model's maximum context length is {n_ctx} tokens. However, your prompt resulted in {n_prompt_tokens} tokens, and the answer needs at least one: the prompt is too long"
    )]
    PromptTooLong {
        /// Number of tokens in the prompt.
        n_prompt_tokens: usize,
        /// Maximum number of tokens of a sequence, prompt and generated together.
        n_ctx: usize,
    },
    /// The prompt is longer than a batch, and prompts are not split (`dynamic_split_fuse: false`).
    #[error(
        "the prompt has {n_prompt_tokens} tokens, more than max_num_batched_tokens ({max_num_batched_tokens}), and dynamic_split_fuse is off"
    )]
    PromptExceedsBatch {
        /// Number of tokens in the prompt.
        n_prompt_tokens: usize,
        /// Maximum number of tokens in a batch.
        max_num_batched_tokens: usize,
    },
    /// A prompt token is not in the vocabulary.
    #[error(
        "token {token} at position {position} of the prompt is not in the vocabulary of {n_vocab} tokens"
    )]
    InvalidToken {
        /// Token id that is out of range.
        token: Token,
        /// Index of the token in the prompt.
        position: usize,
        /// Size of the vocabulary, in tokens.
        n_vocab: usize,
    },
    /// The prompt ends with an image or a sound.
    #[error("the prompt ends with an image or a sound: text must follow it")]
    EndsWithMedium,
    /// A parameter is out of its range.
    #[error("`{field}` {message}")]
    InvalidParameter {
        /// Name of the parameter in requests.
        field: &'static str,
        /// The allowed values, as text.
        message: String,
    },
    /// Too many requests wait already; a later attempt may succeed.
    #[error("{waiting} requests are waiting, and the queue holds {limit}")]
    QueueFull {
        /// Number of requests that wait at present.
        waiting: usize,
        /// Maximum number of waiting requests.
        limit: usize,
    },
    /// The waiting prompts have too many tokens already; a later attempt may succeed.
    #[error("prompts of {waiting} tokens are waiting, and the queue holds {limit}")]
    QueuedTokens {
        /// Number of prompt tokens that wait.
        waiting: u64,
        /// Maximum number of prompt tokens that wait.
        limit: u64,
    },
    /// The tenant has used its share of the queue; a later attempt may succeed.
    #[error(
        "{waiting} requests of the same tenant are waiting, and the rest of the queue is for others"
    )]
    ShareTaken {
        /// Number of the tenant's waiting requests.
        waiting: usize,
    },
    /// There is too little free memory; a later attempt may succeed.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The engine's thread has ended.
    #[error("the engine has stopped")]
    Stopped,
    /// The engine failed; it may be replaced soon.
    #[error(transparent)]
    Failed(GenerationError),
}

impl SubmitError {
    /// Creates the error about a parameter. The message continues its name.
    pub(crate) fn parameter(field: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::InvalidParameter { field, message }
    }
}

/// Reason why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// Path that could not be read.
        path: PathBuf,
        /// Error that the system reported.
        #[source]
        source: io::Error,
    },
    /// The script of a scripted model is wrong.
    #[error("`{}` is not a model script: {message}", path.display())]
    Script {
        /// Path of the script file.
        path: PathBuf,
        /// Description of the first mistake.
        message: String,
    },
    /// The backend refused the model file.
    #[error("cannot load model `{}`: {message}", path.display())]
    Model {
        /// Path of the model file.
        path: PathBuf,
        /// Description of the backend, as it was logged.
        message: String,
    },
    /// The model does not fit in the available memory.
    #[error("not enough memory for `{}`: {message}", path.display())]
    Memory {
        /// Path of the model file.
        path: PathBuf,
        /// The arithmetic, and the option to lower.
        message: String,
    },
    /// A value of the spec is impossible on this machine or with this model.
    #[error("`{field}` {message}")]
    Spec {
        /// Name of the option in the graph.
        field: &'static str,
        /// The allowed values, as text.
        message: String,
    },
    /// This build has no backend for the model file.
    #[error("`{}` needs the {backend} backend, which this build does not have (cargo feature `{feature}`)", path.display())]
    BackendMissing {
        /// Path of the model file.
        path: PathBuf,
        /// Name of the missing backend.
        backend: &'static str,
        /// Cargo feature that adds it.
        feature: &'static str,
    },
    /// The system refused a thread.
    #[error("cannot start a thread for the engine")]
    Thread {
        /// Error that the system reported.
        #[source]
        source: io::Error,
    },
    /// The loader panicked; the model may be damaged.
    #[error("loading panicked: {message}")]
    Panicked {
        /// Message of the panic, as text.
        message: String,
    },
}

impl LoadError {
    /// Creates the error about a file that the system does not read.
    pub(crate) fn read(path: impl Into<PathBuf>, source: io::Error) -> Self {
        let path = path.into();
        Self::Read { path, source }
    }

    /// Creates the error about a model file that is refused.
    pub(crate) fn model(path: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        let (path, message) = (path.into(), message.into());
        Self::Model { path, message }
    }

    /// Creates the error about a model that does not fit in memory.
    #[cfg(feature = "llama")]
    pub(crate) fn memory(path: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        let (path, message) = (path.into(), message.into());
        Self::Memory { path, message }
    }

    /// Creates the error about an option. The message continues its name.
    pub(crate) fn spec(field: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::Spec { field, message }
    }
}

/// There is too little memory for the request at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the remaining memory ({} MiB) is reserved for running requests; try again later", self.left >> 20)]
pub struct OutOfMemory {
    /// Bytes that were available at that moment.
    pub left: u64,
}
