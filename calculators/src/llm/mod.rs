//! The language model as a node, and as the resource that all nodes around it share.

mod batching;
mod calculator;
mod constraint;
mod faults;
mod formats;
mod generation_config;
mod generations;
mod history;
mod limits;
mod media;
mod model;
pub(crate) mod model_spec;
pub(crate) mod options;
mod output_format;
mod recorded;
mod templates;
pub(crate) mod truncation;
mod turns;
pub(crate) mod waits;
mod work;

pub(crate) use calculator::failed;
pub(crate) use faults::unusable;
pub(crate) use generations::refused;
pub(crate) use history::turn;

pub use calculator::{Credit, Llm, LlmPorts};
pub use constraint::ConstraintCompiler;
pub use generation_config::GenerationConfig;
pub use media::{ImageLimits, MediaLimits, SoundLimits};
pub(crate) use media::{is_told_of, place_vectors, unreadable, vision};
pub use model::LanguageModel;
pub use model_spec::ModelSpec;
pub use options::{LlmOptions, PipelineType};
pub use output_format::{OutputFormat, OutputFormatPorts};
pub use recorded::RecordedTokens;

use graphmill_engine::{Error, Result};
use graphmill_llm::memory_budget::{self, Claim};
use graphmill_llm::{OutOfMemory, TokenizeError};

/// Returns the error for a field of a request, with a message that follows the field's name.
pub(crate) fn wrong(field: &str, message: &str, code: &'static str) -> Error {
    Error::invalid(format!("`{field}` {message}"))
        .with_field(field.to_owned())
        .with_code(code)
}

/// Claims memory for a task. The claim ends when it is dropped.
///
/// # Errors
/// There is not enough memory now. The error is the answer to the request.
pub(crate) fn claim_room(bytes: usize) -> Result<Claim> {
    memory_budget::claim(bytes as u64).map_err(out_of_memory)
}

/// Returns the error for a text that cannot be tokenized, with the field that has the text.
pub(crate) fn not_tokenized(error: TokenizeError, field: Option<String>) -> Error {
    let message = field
        .as_ref()
        .map_or_else(|| error.to_string(), |field| format!("`{field}`: {error}"));
    let answer = match &error {
        TokenizeError::Cancelled => Error::cancelled(message),
        TokenizeError::OutOfMemory(error) => return out_of_memory(*error),
        TokenizeError::NoThread(_) => Error::unavailable(message),
        TokenizeError::TooLarge { .. } => {
            Error::invalid(message).with_code("context_length_exceeded")
        }
        TokenizeError::Uncut { .. }
        | TokenizeError::Run { .. }
        | TokenizeError::NoTokens { .. } => Error::invalid(message).with_code("invalid_value"),
    };
    let answer = answer.with_source(error);
    match field {
        Some(field) => answer.with_field(field),
        None => answer,
    }
}

/// Returns the error for a request for which there is not enough memory now.
pub(crate) fn out_of_memory(error: OutOfMemory) -> Error {
    Error::unavailable(error.to_string())
        .with_code("insufficient_memory")
        .with_source(error)
}
