//! Nodes that read and write the dialects of HTTP: what a request may say, and how an answer looks.
//!
//! OpenAI's chat and completions are the native tongue. Requests of `responses` and `messages` are translated into chat before
//! they are read, and their answers are written from the same chunks of text.
//!
//! Every refusal names the field it is about, by its JSON path.

mod body;
mod defaults;
mod dialect;
mod embeddings;
mod fields;
mod functions;
mod input;
mod inspect;
mod limits;
mod logprobs;
mod messages;
mod params;
mod parts;
mod prompts;
mod reasoning;
mod request;
mod rerank;
mod response;
mod responses;
mod sampling;
mod structured;
pub mod table;
mod target;
mod tools;
mod translate;
mod wire;

pub use embeddings::{EmbeddingsRequest, EmbeddingsResponse};
pub use inspect::PromptReporter;
pub use request::{OpenAIRequest, OpenAIRequestOptions};
pub use rerank::{RerankRequest, RerankResponse};
pub use response::OpenAIResponse;
