//! Nodes that read and write the dialects of HTTP: what a request may say, and how an answer looks.
//!
//! Each dialect is a folder: OpenAI's `chat/completions`, `completions` and `responses`,
//! Anthropic's `messages`, KServe's `generate`, OpenAI's `audio/transcriptions`. All of them
//! implement [`dialect::Dialect`]. Requests of `responses`, `messages` and `audio/transcriptions`
//! are translated into chat before they are read, those of `generate` into `completions`, and all
//! answers are written from the same chunks of text.
//! `embeddings` and `rerank` have nodes of their own.
//!
//! Every refusal names the field it is about, by its JSON path.

mod body;
mod chat;
mod choices;
mod completions;
pub mod defaults;
pub mod dialect;
pub mod dialect_table;
pub mod embeddings;
mod fields;
mod generate;
pub mod inspect;
pub mod limits;
mod logprobs;
mod messages;
mod named_events;
mod params;
mod parts;
mod prompts;
mod remote_images;
pub mod request;
pub mod rerank;
pub mod response;
mod responses;
mod sampling;
mod structured;
pub mod table;
pub mod texts;
mod transcriptions;
mod translate;
mod usage;
mod wire;

use graphmill_engine::Calculator;

pub use remote_images::RemoteImage;

/// The endpoints (ends of paths, as the table of fields names them) whose requests a calculator
/// reads, the most common one first. Empty for a calculator that reads no requests, or is of another
/// crate.
pub fn endpoints(calculator: &str) -> Vec<&'static str> {
    match calculator {
        request::OpenAIRequest::NAME => {
            let dialects = dialect_table::ALL.iter();
            dialects.map(|dialect| dialect.endpoint()).collect()
        }
        embeddings::EmbeddingsRequest::NAME => vec![table::EMBEDDINGS, table::EMBED],
        rerank::RerankRequest::NAME => vec![table::RERANK],
        _ => Vec::new(),
    }
}
