//! Nodes that read and write the OpenAI dialect: what a request may say, and how an answer looks.
//!
//! Every refusal names the field it is about, by its JSON path.

mod fields;
mod input;
mod inspect;
mod logprobs;
mod params;
mod request;
mod response;
mod wire;

pub use inspect::PromptReporter;
pub use request::{OpenAIRequest, OpenAIRequestOptions};
pub use response::OpenAIResponse;
