//! What goes wrong: with a model that is loaded, a request that is submitted and a generation that
//! runs.

use std::path::PathBuf;

use super::Token;

/// Why the engine gave up a sequence it had accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct GenerationError {
    /// Whose fault it is, and whether trying again can help.
    pub kind: ErrorKind,
    /// What went wrong.
    pub message: String,
}

/// The kinds of [`GenerationError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A step failed or panicked.
    Internal,
    /// The KV cache could not hold the sequence, or no place came free in time.
    ResourceExhausted,
    /// The engine is shutting down or lost its backend.
    Unavailable,
    /// The text could not be held to its constraint, which is too complex.
    Constraint,
}

/// What there is instead, for an error about a name.
fn listed(known: &[String]) -> String {
    if known.is_empty() {
        return String::new();
    }
    format!("; there are `{}`", known.join("`, `"))
}

/// Why a request was not accepted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SubmitError {
    /// The prompt has no token.
    #[error("the prompt has no tokens")]
    EmptyPrompt,
    /// No adapter has that name.
    #[error("the model has no adapter `{name}`{}", listed(known))]
    UnknownAdapter {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// The prompt leaves no room for a single generated token.
    #[error(
        "This model's maximum context length is {n_ctx} tokens. However, your messages resulted in {n_prompt_tokens} tokens, and the answer needs at least one: the prompt is too long"
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        n_prompt_tokens: usize,
        /// Tokens a sequence can have: prompt and generated together.
        n_ctx: usize,
    },
    /// Prompts are not split (`dynamic_split_fuse: false`) and this one is longer than a batch.
    #[error(
        "the prompt has {n_prompt_tokens} tokens, more than max_num_batched_tokens ({max_num_batched_tokens}), and dynamic_split_fuse is off"
    )]
    PromptExceedsBatch {
        /// Tokens of the prompt.
        n_prompt_tokens: usize,
        /// Tokens a batch can have.
        max_num_batched_tokens: usize,
    },
    /// A prompt token is not in the vocabulary.
    #[error(
        "token {token} at position {position} of the prompt is not in the vocabulary of {n_vocab} tokens"
    )]
    InvalidToken {
        /// The token.
        token: Token,
        /// Its index in the prompt.
        position: usize,
        /// Tokens in the vocabulary.
        n_vocab: usize,
    },
    /// The prompt ends with an image or a sound.
    #[error(
        "the prompt ends with an image or a sound: something has to follow it that the answer goes on from"
    )]
    EndsWithMedium,
    /// A parameter is out of its range.
    #[error("`{field}` {message}")]
    InvalidParameter {
        /// The parameter's name.
        field: &'static str,
        /// What was expected.
        message: String,
    },
    /// Too many requests wait already; trying again later can help.
    #[error("{waiting} requests are waiting, and the queue holds {limit}")]
    QueueFull {
        /// Requests that wait.
        waiting: usize,
        /// The queue's bound.
        limit: usize,
    },
    /// The prompts that wait have too many tokens already; trying again later can help.
    #[error("prompts of {waiting} tokens are waiting, and the queue holds {limit}")]
    QueuedTokens {
        /// Prompt tokens that wait.
        waiting: u64,
        /// The queue's bound.
        limit: u64,
    },
    /// The tenant has its share of the queue; trying again later can help.
    #[error(
        "{waiting} requests of the same tenant are waiting, and the rest of the queue is for others"
    )]
    ShareTaken {
        /// Its requests that wait.
        waiting: usize,
    },
    /// Memory is short; trying again later can help.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The engine's thread has ended.
    #[error("the engine has stopped")]
    Stopped,
    /// The engine was given up; another one may be there soon.
    #[error(transparent)]
    Failed(GenerationError),
}

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The script of a scripted model is complete and wrong.
    #[error("`{}` is not a model script: {message}", path.display())]
    Script {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The backend refused the model file.
    #[error("cannot load model `{}`: {message}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// What the backend said.
        message: String,
    },
    /// The model does not fit in the memory there is.
    #[error("not enough memory for `{}`: {message}", path.display())]
    Memory {
        /// The file.
        path: PathBuf,
        /// The arithmetic, and what to lower.
        message: String,
    },
    /// A value of the spec cannot work on this machine or with this model.
    #[error("`{field}` {message}")]
    Spec {
        /// The option's name.
        field: &'static str,
        /// What was expected.
        message: String,
    },
    /// This build has no backend for the model file.
    #[error("`{}` needs the {backend} backend, which this build does not have (cargo feature `{feature}`)", path.display())]
    BackendMissing {
        /// The file.
        path: PathBuf,
        /// The backend's name.
        backend: &'static str,
        /// The cargo feature that adds it.
        feature: &'static str,
    },
    /// The system refused a thread.
    #[error("cannot start a thread for the engine")]
    Thread {
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Loading panicked.
    #[error("loading panicked: {message}")]
    Panicked {
        /// The panic's message.
        message: String,
    },
}

/// There is too little memory for what is asked for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the memory that is left ({} MiB) is kept for requests that run; try again later", self.left >> 20)]
pub struct OutOfMemory {
    /// Bytes that are left.
    pub left: u64,
}
